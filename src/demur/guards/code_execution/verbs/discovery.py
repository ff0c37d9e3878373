"""Programs that only look: a note on record, never more. Tools made for attacks are named apart."""

from demur.guards.code_execution.names import split_names
from demur.guards.code_execution.verbs.around import CommandRows

__all__ = ["ATTACK_TOOLS", "DISCOVERY_ROWS", "TESTING_TOOLS"]

_ALWAYS = split_names("""
    whoami id who w last lastlog users uname hostname ifconfig netstat ss arp route lsof ps lsmod
    kldstat dmidecode lscpu lspci lsusb systemd-detect-virt ioreg system_profiler sw_vers sockstat
    smbstatus showmount findmnt locale localectl dscacheutil arp-scan ldapsearch nbtscan smbutil
    smbclient rpcclient finger netdiscover lsblk mount_smbfs ipconfig systeminfo tasklist nbtstat
    nltest dsquery csvde ldifde gpresult whoami.exe qwinsta quser query driverquery ver chcp dism
    w32tm hostnamectl timedatectl getmac pgrep pwpolicy rusers ac faillog vmstat ipcs printers
    lpstat crontab-ui blkid fdisk-l kmod groupmembers scutil
""")

DISCOVERY_ROWS: CommandRows = {
    **dict.fromkeys(_ALWAYS, (("HOST_FACTS", r""),)),
    "ip": (
        (
            "HOST_FACTS",
            r"^(?:-\S+ )?(?:a|addr|address|r|route|n|neigh|link|l)\b(?!.*\b(?:add|del|set)\b)",
        ),
    ),
    "nmap": (("TESTING_TOOL", r""),),
    "hping3": (("TESTING_TOOL", r""),),
    "sysctl": (("HOST_FACTS", r"-[na]|hw\.|kern\."),),
    "cat": (
        (
            "HOST_FACTS",
            r"(?:^| )/etc/|/proc/(?:version|cpuinfo|modules|net|mounts|1/)|/sys/class/dmi",
        ),
    ),
    "ls": (("HOST_FACTS", r"/etc|/root|/Applications|/Library|/home\b|/Users\b|/var/log"),),
    "find": (
        (
            "HOST_FACTS",
            (
                r"-perm\b|/ .*-(?:name|iname|path).*(?:\.ssh|id_rsa|passw|\.kdbx|\.pem"
                r"|cookies|places\.sqlite|Bookmarks|\.aws|credential|history)|^/ "
            ),
        ),
    ),
    "grep": (
        (
            "SECRET_READ",
            (
                r"(?i)^(?=.*-\S*r)(?=.*(?:passw|secret|api.?key|token|private "
                r"key))(?=.* (?:/|/~|/home|/etc|/root|/Users)\S*(?: |$))"
            ),
        ),
        ("HOST_FACTS", r"(?i)-\S*r\S* .*(?:passw|secret|api.?key|token)|/etc/|/proc/"),
    ),
    "ldapadd": (("ACCOUNT_CHANGE", r""),),
    "ldapmodify": (("ACCOUNT_CHANGE", r""),),
    "locate": (("HOST_FACTS", r""),),
    "defaults": (("HOST_FACTS", r"read"),),
    "mdfind": (("HOST_FACTS", r""),),
    "rpm": (("HOST_FACTS", r"-qa"),),
    "dpkg": (("HOST_FACTS", r"-l\b"),),
    "systemctl": (("HOST_FACTS", r"list-|status"),),
    "kubectl": (("HOST_FACTS", r"^(?:get|describe|cluster-info|auth can-i)"),),
    "docker": (("HOST_FACTS", r"^(?:ps|inspect|info)\b"),),
    "networksetup": (("TUNNEL", r"-set\w*proxy"), ("HOST_FACTS", r"-(?:list|get)")),
    "systemsetup": (("REMOTE_EXECUTION", r"-setremotelogin on"), ("HOST_FACTS", r"-get")),
    "gdb": (("PROCESS_INJECTION", r"(?:-p|--pid|attach)\b"),),
    "strace": (("EAVESDROP", r"(?:-p|--attach)\b"),),
    "pwsh": (("HOST_FACTS", r"(?i)get-"),),
    "iptables-save": (("HOST_FACTS", r""),),
    "ping": (("HOST_FACTS", r""),),
    "dig": (("HOST_FACTS", r""),),
    "nslookup": (("HOST_FACTS", r""),),
    "smbmap": (("TESTING_TOOL", r""),),
}

# Made for attacks: intrusion, credential theft, privilege escalation.
ATTACK_TOOLS = frozenset(
    split_names("""
    mimikatz pypykatz lazagne linpeas linenum winpeas winpeasx64 rubeus sharphound nanodump
    procdump-lsass mimipenguin gsecdump pwdump pwdump7 fgdump wce kekeo safetykatz sharpdpapi
    sharpweb sharpchrome seatbelt sharpup watson juicypotato roguepotato badpotato printspoofer
    godpotato sweetpotato petitpotam secretsdump impacket-secretsdump inveigh empire koadic sliver
    sliver-client merlin covenant meterpreter cobaltstrike beacon truffle-snout trufflesnout
    adfind snaffler sharpshares sharpview powerview powersploit outflank-dumpert xordump nppspy
    autosuid dirtycow linux-exploit-suggester pspy pspy64 pacu stratus peirates kdigger soaphound
    dnscat2 iodine akagi64 nsudolg backstab edrsandblast defendercontrol hfs rdpwrap tokenvator
    incognito invoke-mimikatz xenarmor redinjection webbrowserpassview chromepass
    vaultpasswordview credentialfileview wifipass hashdump dumpert lsassy donpapi spraykatz
    sharpspray ghosttask t14m4t azurehound roadrecon aadinternals microburst skyark mfasweep
    mailsniper go-secdump physmem2profit dumpit
""")
)
# Security tools that testers and defenders use as well.
TESTING_TOOLS = frozenset(
    split_names("""
    nmap masscan zmap rustscan nikto sqlmap hydra medusa ncrack john hashcat gobuster dirb
    dirbuster ffuf wfuzz feroxbuster wpscan aircrack-ng airodump-ng aireplay-ng reaver hping3
    enum4linux smbmap theharvester amass subfinder nuclei searchsploit setoolkit beef ettercap
    bettercap trufflehog psexec.py wmiexec smbexec.py atexec dcomexec getuserspns getnpusers
    evil-winrm crackmapexec netexec nxc responder msfconsole msfvenom bloodhound-python ntlmrelayx
    kerbrute les.sh gitleaks pcileech processhacker pchunter64 procdump procdump64 volatility
    msxsl nircmd
""")
)
