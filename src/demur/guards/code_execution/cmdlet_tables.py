"""Tables for PowerShell cmdlets, and patterns of abuse that span several commands."""

import re

from demur.guards.code_execution.context import CommandRows
from demur.guards.code_execution.windows_tables import AUTOSTART, DEFENCES, SECRETS, UAC

EVALUATORS = frozenset(
    {"iex", "invoke-expression", "[scriptblock]::create", "invoke-command-text", "icex"}
)
FETCHERS = frozenset(
    {"iwr", "invoke-webrequest", "irm", "invoke-restmethod", "wget", "curl", "start-bitstransfer"}
)

_KEYS = (
    ("UAC_BYPASS", rf"(?i){UAC}"),
    ("DEFENCE_WEAKENED", rf"(?i){DEFENCES}"),
    ("STARTUP_FILE", rf"(?i){AUTOSTART}"),
    ("CREDENTIAL_DUMP", rf"(?i){SECRETS}"),
    ("WRITE_OUTSIDE", r"(?i)hk(?:lm|ey_local_machine|cu|ey_current_user|cr)\b"),
)

CMDLET_ROWS: CommandRows = {
    **dict.fromkeys(
        (
            "set-itemproperty",
            "sp",
            "new-itemproperty",
            "new-item",
            "ni",
            "rename-itemproperty",
            "set-item",
            "copy-item",
        ),
        _KEYS,
    ),
    **dict.fromkeys(
        ("remove-itemproperty", "remove-item", "ri", "clear-itemproperty"),
        (
            ("DEFENCE_WEAKENED", rf"(?i){DEFENCES}|(?i:amsi)"),
            ("DELETE_FILE_OUTSIDE", r"(?i)hk(?:lm|ey_local_machine)"),
        ),
    ),
    "set-mppreference": (
        (
            "DEFENCE_OFF",
            r"(?i)-\w*disable\w*|exclusion|-\w*(?:submit|maps|threatdefault|puaprotection|networkprotection)\w*",
        ),
    ),
    "add-mppreference": (("DEFENCE_OFF", r"(?i)exclusion|-\w*defaultaction|attack"),),
    "remove-mppreference": (("DEFENCE_OFF", r""),),
    "uninstall-windowsfeature": (("DEFENCE_OFF", r"(?i)defender"), ("STOP_SERVICE", r"")),
    "disable-windowsoptionalfeature": (("DEFENCE_OFF", r"(?i)defender"), ("STOP_SERVICE", r"")),
    "set-netfirewallprofile": (("DEFENCE_OFF", r"(?i)-enabled:? *\$?false"),),
    "new-netfirewallrule": (("DEFENCE_WEAKENED", r"(?i)allow"),),
    "disable-netfirewallrule": (("DEFENCE_WEAKENED", r""),),
    "remove-netfirewallrule": (("DEFENCE_WEAKENED", r""),),
    "set-executionpolicy": (("DEFENCE_WEAKENED", r"(?i)bypass|unrestricted"),),
    "disable-computerrestore": (("DELETE_BACKUPS", r""),),
    "set-service": (
        ("DEFENCE_OFF", r"(?i)(?:windefend|sense|mpssvc|wscsvc|eventlog|sysmon)"),
        ("SERVICE_CREATE", r"(?i)binarypath"),
        ("STOP_SERVICE", r"(?i)disabled|stopped"),
    ),
    "stop-service": (
        ("DEFENCE_OFF", r"(?i)(?:windefend|sense|mpssvc|wscsvc|eventlog|sysmon|defender)"),
        ("STOP_SERVICE", r""),
    ),
    **dict.fromkeys(
        ("stop-process", "spps"),
        (("DEFENCE_OFF", r"(?i)(?:msmpeng|sense|sysmon|csfalcon|lsass)"), ("STOP_SERVICE", r"")),
    ),
    "new-service": (("SERVICE_CREATE", r""),),
    "set-servicebinarypath": (("SERVICE_CREATE", r""),),
    **dict.fromkeys(
        (
            "register-scheduledtask",
            "new-scheduledtask",
            "set-scheduledtask",
            "register-scheduledjob",
            "new-scheduledtaskaction",
            "start-scheduledtask",
        ),
        (("STARTUP_JOB", r""),),
    ),
    **dict.fromkeys(
        ("disable-scheduledtask", "unregister-scheduledtask"), (("DEFENCE_WEAKENED", r""),)
    ),
    **dict.fromkeys(
        ("set-wmiinstance", "register-wmievent", "register-cimindicationevent", "new-ciminstance"),
        (("STARTUP_FILE", r""),),
    ),
    **dict.fromkeys(
        (
            "new-localuser",
            "new-aduser",
            "enable-localuser",
            "set-localuser",
            "new-azureaduser",
            "new-mguser",
            "new-adcomputer",
        ),
        (("ACCOUNT_CREATE", r""),),
    ),
    **dict.fromkeys(
        (
            "add-localgroupmember",
            "add-adgroupmember",
            "add-azureaddirectoryrolemember",
            "add-azureadgroupmember",
        ),
        (
            ("ADMIN_GROUP", r"(?i)admin|domain|remote desktop|backup operators"),
            ("ACCOUNT_CHANGE", r""),
        ),
    ),
    **dict.fromkeys(
        (
            "remove-localuser",
            "remove-aduser",
            "remove-azureaduser",
            "disable-localuser",
            "disable-adaccount",
        ),
        (("DELETE_ACCOUNT", r""),),
    ),
    **dict.fromkeys(
        ("set-adaccountpassword", "set-aduser", "set-azureaduserpassword"),
        (("ACCOUNT_CREATE", r""),),
    ),
    **dict.fromkeys(
        (
            "new-azroleassignment",
            "add-msolrolemember",
            "new-azureadserviceprincipal",
            "new-azureadapplication",
            "new-azureadserviceprincipalpasswordcredential",
            "new-azadserviceprincipal",
            "new-azureadserviceprincipalkeycredential",
            "new-managementroleassignment",
            "new-azautomationrunbook",
            "set-msoldomainauthentication",
            "new-iamuser",
        ),
        (("CLOUD_RIGHTS", r""),),
    ),
    **dict.fromkeys(
        ("invoke-command", "icm"), (("REMOTE_EXECUTION", r"(?i)-comp|-session|-hostname|-vmname"),)
    ),
    **dict.fromkeys(
        (
            "enter-pssession",
            "new-pssession",
            "etsn",
            "nsn",
            "invoke-wmimethod",
            "invoke-cimmethod",
            "enable-psremoting",
            "set-wsmanquickconfig",
            "copy-vmfile",
        ),
        (("REMOTE_EXECUTION", r""),),
    ),
    **dict.fromkeys(
        ("invoke-wmimethod", "invoke-cimmethod", "iwmi"),
        (("STARTUP_JOB", r"(?i)scheduledtask"), ("REMOTE_EXECUTION", r"(?i)create|win32_process")),
    ),
    **dict.fromkeys(
        ("iwr", "invoke-webrequest", "irm", "invoke-restmethod"),
        (
            ("METADATA", r"169\.254\.169\.254"),
            ("DATA_SENT", r"(?i)-infile|-method:? *[\"']?(?:put|post)\b(?=.*-(?:body|infile))"),
            ("DOWNLOAD_FILE", r"(?i)-outf|\.(?:exe|ps1|bat|dll|msi|vbs|hta|zip|cmd)\b"),
        ),
    ),
    "unblock-file": (("DEFENCE_WEAKENED", r""),),
    "mount-diskimage": (("DOWNLOAD_FILE", r""),),
    "start-bitstransfer": (("DOWNLOAD_TOOL", r""),),
    "clear-eventlog": (("DELETE_LOGS", r""),),
    "remove-eventlog": (("DELETE_LOGS", r""),),
    "limit-eventlog": (("DELETE_LOGS", r""),),
    "clear-history": (("DELETE_LOGS", r""),),
    "set-psreadlineoption": (
        ("DELETE_LOGS", r"(?i)savenothing|maximumhistorycount|historysavepath"),
    ),
    "remove-psreadline": (("DELETE_LOGS", r""),),
    "remove-module": (("DELETE_LOGS", r"(?i)psreadline"),),
    "set-adminauditlogconfig": (("DEFENCE_OFF", r"(?i)false"),),
    "set-mailboxauditbypassassociation": (("DEFENCE_OFF", r""),),
    "remove-malwarefilterrule": (("DEFENCE_OFF", r""),),
    "disable-antiphishrule": (("DEFENCE_OFF", r""),),
    "restart-computer": (("SHUT_DOWN", r""),),
    "stop-computer": (("SHUT_DOWN", r""),),
    "format-volume": (("OVERWRITE_DEVICE", r""),),
    "clear-disk": (("OVERWRITE_DEVICE", r""),),
    "initialize-disk": (("OVERWRITE_DEVICE", r""),),
    "clear-recyclebin": (("DELETE_FILE_OUTSIDE", r""),),
    "import-certificate": (("TRUST_STORE", r"(?i)root|trustedpublisher"),),
    "export-pfxcertificate": (("SECRET_READ", r""),),
    "get-adreplaccount": (("CREDENTIAL_DUMP", r""),),
    "get-credential": (("SECRET_READ", r"(?i)promptforcredential"),),
    "get-clipboard": (("EAVESDROP", r""),),
    **dict.fromkeys(
        ("new-neteventsession", "add-neteventpacketcaptureprovider", "start-neteventsession"),
        (("EAVESDROP", r""),),
    ),
    **dict.fromkeys(
        (
            "new-inboxrule",
            "set-mailbox",
            "new-transportrule",
            "install-transportagent",
            "new-webglobalmodule",
        ),
        (("STARTUP_FILE", r""),),
    ),
    "start-process": (("HIDDEN_WINDOW", r"(?i)-w\w* *:? *hidden"), ("SUDO", r"(?i)-verb:? *runas")),
    "saps": (("HIDDEN_WINDOW", r"(?i)hidden"),),
    "new-psdrive": (("REMOTE_EXECUTION", r"(?i)\\\\\\\\|[a-z]\$"),),
    "set-acl": (("OWNERSHIP", r"(?i)windows|system32|hklm|services"),),
    "add-type": (
        (
            "PROCESS_INJECTION",
            r"(?i)dllimport.*(?:virtualalloc|createthread|writeprocessmemory|openprocess)",
        ),
    ),
    "compress-archive": (("WORK_SENT", r"(?i)userprofile|c:\\users"),),
    "set-vmfirmware": (("DEFENCE_WEAKENED", r"(?i)secureboot:? off"),),
    **dict.fromkeys(
        (
            "get-process",
            "get-service",
            "get-netadapter",
            "get-nettcpconnection",
            "get-aduser",
            "get-adcomputer",
            "get-adgroup",
            "get-addomain",
            "get-wmiobject",
            "gwmi",
            "get-ciminstance",
            "gcim",
            "get-localgroup",
            "get-localgroupmember",
            "get-localuser",
            "get-smbshare",
            "get-netneighbor",
            "test-netconnection",
            "get-computerinfo",
            "get-hotfix",
            "get-eventlog",
            "get-winevent",
            "get-mpcomputerstatus",
            "get-mppreference",
            "get-gpo",
            "get-acl",
            "get-psdrive",
            "get-volume",
            "get-disk",
            "get-culture",
            "get-adgroupmember",
            "get-adprincipalgroupmembership",
            "get-adtrust",
            "get-netfirewallrule",
            "get-scheduledtask",
            "get-azaduser",
            "get-azureaduser",
            "get-mguser",
            "get-date",
            "get-timezone",
            "get-winsystemlocale",
            "get-itemproperty",
            "gdr",
            "test-connection",
            "resolve-dnsname",
            "get-netipaddress",
            "get-netroute",
            "get-domainuser",
            "get-pnpdevice",
            "get-process.exe",
            "get-dnsclientcache",
            "get-winuserlanguagelist",
            "get-netshare",
            "get-inboxrule",
            "get-aduserresultantpasswordpolicy",
            "get-addefaultdomainpasswordpolicy",
        ),
        (("HOST_FACTS", r""),),
    ),
    **dict.fromkeys(
        ("get-childitem", "gci"),
        (
            ("SECRET_READ", r"(?i)(?:passw|\.kdbx|id_rsa|login data|cookies|credential)"),
            ("HOST_FACTS", r"(?i)-r\w*|/s\b"),
        ),
    ),
    **dict.fromkeys(
        ("select-string", "sls", "findstr"),
        (("SECRET_READ", r"(?i)passw|secret|api_?key|cpassword"),),
    ),
}

# Patterns over the whole code; the first match of each counts.
SHAPES = tuple(
    (rule, re.compile(pattern, re.IGNORECASE | re.DOTALL))
    for rule, pattern in (
        (
            "DEFENCE_OFF",
            r"amsiutils|amsiinitfailed|amsiscanbuffer|amsi\.dll['\"]?\s*\)|etweventwrite|psetwlogprovider",
        ),
        (
            "PROCESS_INJECTION",
            r"\b(?:virtualallocex?|writeprocessmemory|createremotethread|queueuserapc|rtlcreateuserthread|ntmapviewofsection|setwindowshookex|getdelegateforfunctionpointer)\b",
        ),
        (
            "REVERSE_SHELL",
            r"net\.sockets\.(?:tcpclient|tcplistener)[\s\S]{0,1500}?\b(?:iex|invoke-expression|cmd(?:\.exe)?|streamreader)\b",
        ),
        (
            "CREDENTIAL_DUMP",
            r"comsvcs(?:\.dll)?[,\s'\"]+(?:#\+?000024|minidump)|\bminidump(?:writedump)?\b[\s\S]{0,80}lsass|sekurlsa::|lsadump::|kerberos::golden|get-process\s+-?(?:name\s+)?['\"]?lsass[\s\S]{0,200}dump|dump[\s\S]{0,60}get-process\s+lsass|invoke-(?:mimikatz|kerberoast|dcsync|powerdump|ninjacopy|tokenmanipulation|credentialinjection)|get-(?:gpppassword|gppautologon|vaultcredential|keystrokes|passhashes|lsasecret)",
        ),
        (
            "STARTUP_FILE",
            r"__eventfilter|commandlineeventconsumer|activescripteventconsumer|__filtertoconsumerbinding",
        ),
        ("CREDENTIAL_DUMP", r"win32_shadowcopy\W{0,4}\)?\.create|kerberosrequestorsecuritytoken"),
        (
            "LIBRARY_INJECTION",
            r"\$env:(?:cor_profiler|cor_enable_profiling|dotnet_startup_hooks|comspec|windir)\s*=",
        ),
        ("SECRET_READ", r"--remote-debugging-port"),
        ("DELETE_BACKUPS", r"win32_shadowcopy[\s\S]{0,120}(?:delete|remove-)|delete\s+shadows"),
        (
            "REMOTE_EXECUTION",
            r"mmc20\.application|shellbrowserwindow|\bshellexecute\(|executeshellcommand|ddeinitiate|c08afd90-f2a1-11d1-8455-00a0c91f3880|win32_process['\"]?\s*\)?\.create",
        ),
        (
            "PROXY_EXECUTION",
            r"\[(?:system\.)?reflection\.assembly\]::(?:load|unsafeload)|(?:appdomain|assembly)[\s\S]{0,40}\.load\(|wscript\.shell[\s\S]{0,200}\.(?:run|exec|sendkeys)|excel\.application[\s\S]{0,300}(?:registerxll|activatemicrosoftapp|\.run\()|\.vbproject|invoke-maldoc",
        ),
        (
            "EAVESDROP",
            r"copyfromscreen|getasynckeystate|setwindowshook|clipboard\]::get|mcisendstring|audiorecord",
        ),
        (
            "DATA_SENT",
            r"\.upload(?:file|string|data)\(|\.(?:put|post)async\(|send-mailmessage|system\.net\.mail|ftpwebrequest",
        ),
        ("HIDDEN_FILE", r"\.attributes\s*=\s*['\"]?(?:hidden|system)|-stream\s"),
        (
            "CREDENTIAL_DUMP",
            r"cryptunprotectdata|protecteddata\]::unprotect|vaultcli|\\config\\(?:sam|security)\b|ntds\.dit|volumeshadowcopy[\s\S]{0,80}(?:sam|ntds)|promptforcredential",
        ),
        (
            "UAC_BYPASS",
            r"fodhelper|computerdefaults\.exe|sdclt\.exe|eventvwr\.msc|wsreset\.exe|\buacbypass\b|uacme|akagi",
        ),
        ("ACCOUNT_CREATE", r"userprincipal\s*\(?|\.setpassword\(|\.create\(['\"]user['\"]"),
        (
            "HOST_FACTS",
            r"adsisearcher|directorysearcher|\[environment\]::(?:machinename|username|osversion)|systeminformation|activedirectory\.domain|get-(?:domain|net)(?:user|computer|group|trust|forest|gpo|session|share)\w*|invoke-(?:sharefinder|userhunter|bloodhound|allchecks|aclscanner)",
        ),
        (
            "ATTACK_TOOL",
            r"\b(?:invoke-mimi\w+|powersploit|powerview|powerup|sharphound|bloodhound|winpwn|nishang|rubeus|safetykatz|seatbelt|inveigh|empire/|mimikatz|kerberoast|sharppack|powersharppack|adrecon|lazagne|winpeas)\b",
        ),
        (
            "HIDDEN_WINDOW",
            r"-w(?:in(?:dowstyle)?)?\s+hid\w*|-(?:ep|ex\w*)\s+(?:bypass|unrestricted)\b",
        ),
        (
            "DECODED_RUN",
            r"frombase64string[\s\S]{0,200}\b(?:iex|invoke-expression|invoke\()|(?:iex|invoke-expression)[\s\S]{0,200}frombase64string|&\s*\(\s*(?:gcm|get-command|\$\w+\[|['\"][^'\"]{1,20}['\"]\s*(?:\+|-f))",
        ),
    )
)
