"""Tables for Unix programs: disks, power, defences, logs, credentials, and programs that only look.

A program that only looks is noted and never refused. Attack tools are listed separately.
"""

from demur.guards.code_execution.call import split_names
from demur.guards.code_execution.context import CommandRows

_DISK = r"/dev/(?:r?disk|[shv]d[a-z]|xvd|nvme|mmcblk|md|mapper|dm-)"

SYSTEM_ROWS: CommandRows = {
    # Disks and file systems.
    **dict.fromkeys(
        ("mkswap", "newfs", "wipefs", "mke2fs", "mkntfs", "mkdosfs"),
        (("OVERWRITE_DEVICE", r"/dev/"),),
    ),
    **dict.fromkeys(
        ("sgdisk", "sfdisk"), (("OVERWRITE_DEVICE", rf"(?:-Z|--zap|-o\b|--delete|-d\b).*{_DISK}"),)
    ),
    **dict.fromkeys(
        ("blkdiscard", "badblocks"), (("OVERWRITE_DEVICE", r"^(?!.*-n\b)(?:.*-w.*|/dev/.*|-f.*)$"),)
    ),
    "parted": (("OVERWRITE_DEVICE", r"\b(?:mklabel|mktable|rm)\b"),),
    "cryptsetup": (("OVERWRITE_DEVICE", r"\b(?:luksFormat|erase|luksErase|reencrypt)\b"),),
    "diskutil": (
        (
            "OVERWRITE_DEVICE",
            r"(?i)\b(?:eraseDisk|eraseVolume|zeroDisk|secureErase|partitionDisk)\b",
        ),
    ),
    "hdparm": (("OVERWRITE_DEVICE", r"--security-erase|--trim-sector|--write-sector"),),
    "nvme": (("OVERWRITE_DEVICE", r"^(?:format|sanitize)\b"),),
    "lvremove": (("OVERWRITE_DEVICE", r"(?:-f|-y|--force|--yes)"),),
    "zpool": (("OVERWRITE_DEVICE", r"^(?:destroy|labelclear)\b"),),
    "zfs": (("DELETE_BACKUPS", r"^destroy\b.*-[a-zA-Z]*[rR]"),),
    "tmutil": (
        ("DELETE_BACKUPS", r"^(?:delete|deletelocalsnapshots)"),
        ("STOP_SERVICE", r"^disable"),
    ),
    "btrfs": (("DELETE_BACKUPS", r"subvolume delete"),),
    "vgremove": (("OVERWRITE_DEVICE", r"\S"),),
    # Power.
    **dict.fromkeys(("shutdown",), (("SHUT_DOWN", r"^(?!.*(?:-c\b|--show|/a\b))"),)),
    **dict.fromkeys(("reboot", "halt", "poweroff"), (("SHUT_DOWN", r"^(?!.*--help)"),)),
    "init": (("SHUT_DOWN", r"^[016]$"),),
    "telinit": (("SHUT_DOWN", r"^[016]$"),),
    # Defences.
    "iptables": (
        (
            "DEFENCE_WEAKENED",
            r"(?:^| )(?:-F|--flush|-X|--delete-chain)|-P (?:INPUT|FORWARD|OUTPUT) ACCEPT",
        ),
    ),
    "ip6tables": (
        ("DEFENCE_WEAKENED", r"(?:^| )(?:-F|--flush|-X)|-P (?:INPUT|FORWARD|OUTPUT) ACCEPT"),
    ),
    "nft": (("DEFENCE_WEAKENED", r"^(?:flush|delete)"),),
    "ufw": (
        ("DEFENCE_WEAKENED", r"^(?:--force )?(?:disable|reset)|default allow"),
        ("HOST_FACTS", r"status"),
    ),
    "pfctl": (("DEFENCE_WEAKENED", r"-d\b|-F"),),
    "firewall-cmd": (("DEFENCE_WEAKENED", r"--panic-off|--set-default-zone[= ]trusted"),),
    "setenforce": (("DEFENCE_WEAKENED", r"^(?:0|permissive)$"),),
    "aa-disable": (("DEFENCE_WEAKENED", r""),),
    "aa-teardown": (("DEFENCE_WEAKENED", r""),),
    "aa-complain": (("DEFENCE_WEAKENED", r""),),
    "auditctl": (("DEFENCE_OFF", r"-e ?0|-D\b|-d\b"),),
    "csrutil": (("DEFENCE_OFF", r"disable"), ("HOST_FACTS", r"status")),
    "spctl": (("DEFENCE_OFF", r"disable"),),
    "socketfilterfw": (("DEFENCE_OFF", r"--setglobalstate off|--setstealthmode off"),),
    "kickstart": (("REMOTE_EXECUTION", r"-activate"),),
    **dict.fromkeys(
        ("google-chrome", "chrome", "chromium", "open", "msedge", "firefox"),
        (("SECRET_READ", r"--remote-debugging-port"),),
    ),
    "xattr": (("DEFENCE_WEAKENED", r"-r?d\S* com\.apple\.quarantine"),),
    "setopt": (("DELETE_LOGS", r"(?i)hist"),),
    "gsettings": (("DEFENCE_WEAKENED", r"lock-enabled false"),),
    "esxcli": (
        ("DEFENCE_OFF", r"(?:firewall|syslog|acceptance|settings).*(?:false|disable|set)"),
        ("STOP_SERVICE", r"vm process kill"),
    ),
    "vim-cmd": (
        ("STOP_SERVICE", r"power\.off"),
        ("DELETE_BACKUPS", r"snapshot\.removeall"),
        ("REMOTE_EXECUTION", r"enable_ssh"),
    ),
    # Logs and history.
    "history": (("DELETE_LOGS", r"-[a-z]*c|-d \d"),),
    "unset": (("DELETE_LOGS", r"\bHIST(?:FILE|SIZE|FILESIZE)\b"),),
    "export": (
        ("DELETE_LOGS", r"\bHIST(?:FILE=(?:/dev/null|$| )|(?:FILE)?SIZE=0|CONTROL=ignore)"),
    ),
    "set": (("DELETE_LOGS", r"\+o history"),),
    "journalctl": (("DELETE_LOGS", r"--vacuum|--rotate"),),
    "dmesg": (("DELETE_LOGS", r"(?:-c|-C|--clear)\b"),),
    "log": (("DELETE_LOGS", r"^erase\b"),),
    "wtmpclean": (("DELETE_LOGS", r""),),
    # Credentials.
    "security": (
        ("CREDENTIAL_DUMP", r"dump-keychain|export\b"),
        ("SECRET_READ", r"find-(?:generic|internet)-password .*-[a-z]*[wg]"),
        ("TRUST_STORE", r"add-trusted-cert|import\b"),
        ("HOST_FACTS", r"find-certificate|list-keychains"),
    ),
    "osascript": (("SECRET_READ", r"(?i)hidden answer|display dialog .*passw|Keychain|Cookies"),),
    "gcloud": (("SECRET_READ", r"auth print-(?:access|identity)-token|application-default print"),),
    "unshadow": (("CREDENTIAL_DUMP", r""),),
    "gcore": (("CREDENTIAL_DUMP", r"\d|\$"),),
    "secret-tool": (("SECRET_READ", r"^(?:lookup|search)"),),
    "kwallet-query": (("SECRET_READ", r"-r"),),
    "getent": (("SECRET_READ", r"shadow"), ("HOST_FACTS", r"passwd|group")),
    "klist": (("HOST_FACTS", r""),),
    "chage": (("HOST_FACTS", r"-l"),),
    # Capture of traffic, screen and sound.
    **dict.fromkeys(
        ("tcpdump", "tshark", "dumpcap", "ettercap", "dsniff", "bettercap", "mitmproxy", "ngrep"),
        (("EAVESDROP", r"^(?!.*(?:-r\b|-D\b|--version|-L\b))"),),
    ),
    **dict.fromkeys(
        ("screencapture", "scrot", "import", "xwd", "gnome-screenshot", "pbpaste", "arecord"),
        (("EAVESDROP", r""),),
    ),
    **dict.fromkeys(("logkeys", "xinput", "showkey"), (("EAVESDROP", r"test|--start|-s"),)),
    "pam_tty_audit": (("EAVESDROP", r""),),
    "xclip": (("EAVESDROP", r"-o"),),
    "xsel": (("EAVESDROP", r"-o|--output"),),
    # Hiding.
    "chattr": (("HIDDEN_FILE", r"\+i"), ("DEFENCE_WEAKENED", r"-[ia]\b.*(?:/etc|/var|/usr)")),
    "chflags": (("HIDDEN_FILE", r"hidden|schg"),),
    "setfile": (("HIDDEN_FILE", r"-a V"),),
    "touch": (("HIDDEN_FILE", r"(?:-r|--reference|-t|-d|-acmr) .*(?:/etc|/bin|/usr|/sbin|/tmp)"),),
}


def _prefixed_names(prefix: str, names: str) -> list[str]:
    return [f"{prefix}.{name}" for name in names.split()]


for _verb in (
    "mkfs",
    *_prefixed_names(
        "mkfs", "ext2 ext3 ext4 xfs btrfs fat vfat ntfs exfat f2fs minix msdos jfs bfs"
    ),
):
    SYSTEM_ROWS[_verb] = (("OVERWRITE_DEVICE", r"/dev/"),)


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
