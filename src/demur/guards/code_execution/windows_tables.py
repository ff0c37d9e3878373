r"""Tables for Windows programs: registry, services, tasks, accounts, and programs that run others.

The patterns for registry keys match paths in any spelling (`HKLM\...`, `HKLM:\...`), caseless.
"""

from demur.guards.code_execution.call import split_names
from demur.guards.code_execution.context import CommandRows

AUTOSTART = (
    r"currentversion\\run(?:once|services)?(?:ex)?\b"
    r"|policies\\explorer\\run"
    r"|currentversion\\winlogon"
    r"|winlogon\\(?:shell|userinit|notify)"
    r"|image file execution options"
    r"|silentprocessexit"
    r"|appinit_dlls"
    r"|appcertdlls"
    r"|session manager\\(?:bootexecute|environment|knowndlls)"
    r"|currentcontrolset\\services\\"
    r"|userinitmprlogonscript"
    r"|active setup\\installed components"
    r"|inprocserver32|localserver32|\\treatas|scriptleturl|\\clsid\\"
    r"|command processor"
    r"|office test\\special"
    r"|\\outlook\\(?:webview|security)"
    r"|\\(?:excel|word|powerpoint)\\(?:options|addins|security)|startup-path"
    r"|accessibility\\ats"
    r"|\\netsh\b|networkprovider|\\print\\(?:monitors|environments)"
    r"|control\\lsa\b|security packages|notification packages"
    r"|windows error reporting\\(?:hangs|runtimeexception)|aedebug"
    r"|terminal server(?: client|\\addins|\\winstations)?"
    r"|user shell folders|\\shell folders"
    r"|autodialdll|natural language|\\sharedtaskscheduler"
    r"|\\telemetrycontroller|\\peernetworking|appcompatflags"
    r"|scrnsave\.exe|control panel\\desktop"
    r"|\\environment\b.*(?:cor_profiler|appx_process|dotnet)|cor_enable_profiling|cor_profiler"
    r"|timeproviders|\\bits\\|\\fileassoc|userchoice|\\shellserviceobject"
    r"|ghosttask|\\taskcache\\"
)
DEFENCES = (
    r"windows defender"
    r"|disableantispyware|disablerealtimemonitoring|tamperprotection"
    r"|enablelua|consentpromptbehavior|promptonsecuredesktop|localaccounttokenfilterpolicy|filteradministratortoken"
    r"|systemrestore|disablesr\b|disableconfig"
    r"|firewallpolicy|enablefirewall"
    r"|\\amsi\b|scriptblocklogging|modulelogging|transcription|executionpolicy"
    r"|wdigest|uselogoncredential|runasppl|disablerestrictedadmin|lmcompatibilitylevel|limitblankpassworduse"
    r"|fdenytsconnections|userauthentication"
    r"|disable(?:taskmgr|regedit|cmd|registrytools|lockworkstation|changepassword|logoff)|nologoff|nocontrolpanel|hidescahealth|noclose"
    r"|eventlog|minint|channels\\|\\autologger"
    r"|smartscreen|saferredirect|driversigning|hvci|deviceguard|credentialguard|vulnerabledriverblocklist"
    r"|notification_suppress|uacdisablenotify|antivirusdisablenotify|security center"
    r"|grouppolicyrefresh|disablewindowsupdate|noautoupdate"
    r"|showsuperhidden|\\advanced.*hidden|specialaccounts\\userlist"
    r"|zonemap|\\zones\\|trustrecords|vbawarnings|accessvbom|protectedview|disableinternetfiles"
    r"|systemcertificates\\root|trustedpublisher"
    r"|allowtelemetry|proxyenable|proxyserver|consentstore"
)
SECRETS = r"\bsam\b|security\\policy\\secrets|\\cache\b.*nl\$"
UAC = (
    r"(?:mscfile|ms-settings|exefile|folder|appx\w*"
    r"|launcher\.systemsettings)\\shell\\(?:open|runas)|delegateexecute"
    r"|isolatedcommand|\\environment.*windir"
)


_GUARDS = (
    r"(?:windefend|sense\b|wdnissvc|mpssvc|wscsvc|eventlog|sysmon|msmpeng"
    r"|mssense|csfalcon|carbonblack|securityhealth|defender|crowdstrike"
    r"|sophos|mcafee|symantec|avast|kaspersky|sentinel|cylance|vss\b"
    r"|wbengine|sqlwriter|veeam)"
)

WINDOWS_ROWS: CommandRows = {
    "reg": (
        (
            "CREDENTIAL_DUMP",
            rf"(?i)^(?:save|export)\b.*(?:\\sam\b|\\system\b|\\security\b|{SECRETS})",
        ),
        ("UAC_BYPASS", rf"(?i)^add\b.*(?:{UAC})"),
        ("DEFENCE_WEAKENED", rf"(?i)^(?:add|delete|import)\b.*(?:{DEFENCES})"),
        ("STARTUP_FILE", rf"(?i)^(?:add|import)\b.*(?:{AUTOSTART})"),
        ("STARTUP_FILE", r"(?i)^(?:import|load|restore)\b"),
        ("DELETE_FILE_OUTSIDE", r"(?i)^delete\b"),
        ("WRITE_OUTSIDE", r"(?i)^(?:add|copy)\b"),
        ("SECRET_READ", r"(?i)^query\b.*(?:passw|putty|vnc|winlogon|snmp|autologon)"),
        ("HOST_FACTS", r"(?i)^(?:query|compare)\b"),
    ),
    "regini": (("STARTUP_FILE", r""),),
    "schtasks": (
        ("STARTUP_JOB", r"(?i)/(?:create|run)\b"),
        ("DEFENCE_WEAKENED", r"(?i)/(?:change|delete|end)\b"),
        ("HOST_FACTS", r"(?i)/query|^$"),
    ),
    "at": (("STARTUP_JOB", r"(?i)^(?:\\\\\S+ )?\d{1,2}:\d\d"),),
    "sc": (
        ("DEFENCE_OFF", rf"(?i)\b(?:stop|delete|config|sdset)\b.*{_GUARDS}"),
        ("SERVICE_CREATE", r"(?i)\b(?:create|config\b.*binpath|sdset|failure)\b"),
        ("STOP_SERVICE", r"(?i)\b(?:stop|delete|pause|config)\b"),
        ("HOST_FACTS", r"(?i)\bquery"),
    ),
    "net": (
        (
            "ADMIN_GROUP",
            r"(?i)^(?:localgroup|group)\b.*(?:admin|remote desktop|backup op|domain).*\/add",
        ),
        ("ACCOUNT_CREATE", r"(?i)^user\b.*(?:/add|/active:yes|/active: yes)|^user \S+ \S+$"),
        ("DELETE_ACCOUNT", r"(?i)^user\b.*/del"),
        ("DEFENCE_OFF", rf"(?i)^stop\b.*{_GUARDS}"),
        ("STOP_SERVICE", r"(?i)^stop\b"),
        ("REMOTE_EXECUTION", r"(?i)^use\b.*\\\\\S+\\(?:[a-z]\$|admin\$|ipc\$)"),
        ("WRITE_OUTSIDE", r"(?i)^share\b.*="),
        (
            "HOST_FACTS",
            r"(?i)^(?:user|localgroup|groups?|view|share|config|accounts|sessions?|time|use|start|statistics)\b",
        ),
    ),
    "netsh": (
        ("DEFENCE_OFF", r"(?i)advfirewall\b.*(?:state off|reset)|firewall set opmode disable"),
        (
            "DEFENCE_WEAKENED",
            r"(?i)firewall\b.*(?:add|set|delete) (?:rule|portopening|allowedprogram)",
        ),
        ("STARTUP_FILE", r"(?i)add helper"),
        ("TUNNEL", r"(?i)portproxy\b.*add"),
        ("SECRET_READ", r"(?i)wlan\b.*(?:key=clear|key clear|export)"),
        ("EAVESDROP", r"(?i)trace start"),
        ("HOST_FACTS", r"(?i)\bshow\b"),
    ),
    "vssadmin": (
        ("DELETE_BACKUPS", r"(?i)delete|resize"),
        ("CREDENTIAL_DUMP", r"(?i)create"),
        ("HOST_FACTS", r"(?i)list"),
    ),
    "wbadmin": (("DELETE_BACKUPS", r"(?i)delete"),),
    "diskshadow": (("CREDENTIAL_DUMP", r"(?i)/s|^$"),),
    "bcdedit": (
        ("DELETE_BACKUPS", r"(?i)recoveryenabled|bootstatuspolicy|safeboot"),
        ("DEFENCE_WEAKENED", r"(?i)/set|testsigning|nointegritychecks"),
    ),
    "reagentc": (("DELETE_BACKUPS", r"(?i)/disable"),),
    "wevtutil": (("DELETE_LOGS", r"(?i)\b(?:cl|clear-log|sl)\b"), ("HOST_FACTS", r"")),
    "auditpol": (("DEFENCE_OFF", r"(?i)/(?:set|clear|remove|restore)\b"), ("HOST_FACTS", r"")),
    "logman": (("DEFENCE_OFF", r"(?i)\b(?:stop|delete|update)\b"),),
    "fltmc": (("DEFENCE_OFF", r"(?i)unload"), ("HOST_FACTS", r"")),
    "mpcmdrun": (
        ("DEFENCE_OFF", r"(?i)-removedefinitions|-restore"),
        ("DOWNLOAD_TOOL", r"(?i)-downloadfile"),
    ),
    "taskkill": (("DEFENCE_OFF", rf"(?i){_GUARDS}"), ("STOP_SERVICE", r"")),
    "fsutil": (("DELETE_LOGS", r"(?i)usn deletejournal"), ("HOST_FACTS", r"(?i)fsinfo|query")),
    "cipher": (("SHRED", r"(?i)/w"),),
    "sdelete": (("SHRED", r""),),
    "format": (("OVERWRITE_DEVICE", r"(?i)^[a-z]:"),),
    "diskpart": (("OVERWRITE_DEVICE", r""),),
    "shutdown": (("SHUT_DOWN", r"(?i)/[srlhp]\b"),),
    "logoff": (("SHUT_DOWN", r""),),
    "takeown": (("OWNERSHIP", r""),),
    "icacls": (("OWNERSHIP", r"(?i)/(?:grant|setowner|remove|reset|inheritance)"),),
    "cacls": (("OWNERSHIP", r"(?i)/[gpe]\b"),),
    "attrib": (("HIDDEN_FILE", r"(?i)\+[hs]"),),
    "mklink": (("CREDENTIAL_DUMP", r"(?i)volumeshadowcopy"), ("WRITE_OUTSIDE", r"")),
    "assoc": (("STARTUP_FILE", r"="),),
    "ftype": (("STARTUP_FILE", r"="),),
    "setx": (("LIBRARY_INJECTION", r"(?i)cor_|path|dotnet_startup"), ("WRITE_OUTSIDE", r"")),
    "set": (
        (
            "LIBRARY_INJECTION",
            r"(?i)^\"?(?:cor_profiler|dotnet_startup_hooks|comspec|systemroot|windir)\b",
        ),
    ),
    "pnputil": (("KERNEL_MODULE", r"(?i)add-driver|-i\b|/install"),),
    "sdbinst": (("STARTUP_FILE", r""),),
    "mofcomp": (("STARTUP_FILE", r""),),
    "cmdkey": (("SECRET_READ", r"(?i)/list"), ("ACCOUNT_CHANGE", r"(?i)/add|/generic")),
    "vaultcmd": (("SECRET_READ", r""),),
    "ntdsutil": (("CREDENTIAL_DUMP", r""),),
    "esentutl": (
        ("CREDENTIAL_DUMP", r"(?i)sam\b|ntds|/vss|webcache|login data|cookies|history"),
        ("DOWNLOAD_TOOL", r"(?i)/y\b.*\\\\"),
    ),
    "secedit": (("SECRET_READ", r"(?i)/export"), ("DEFENCE_WEAKENED", r"(?i)/configure")),
    "dcdiag": (("HOST_FACTS", r""),),
    "procdump": (("CREDENTIAL_DUMP", r"(?i)lsass|-ma\b"),),
    "procdump64": (("CREDENTIAL_DUMP", r"(?i)lsass|-ma\b"),),
    "createdump": (("CREDENTIAL_DUMP", r""),),
    "rdrleakdiag": (("CREDENTIAL_DUMP", r""),),
    "sqldumper": (("CREDENTIAL_DUMP", r""),),
    "appcmd": (
        ("SECRET_READ", r"(?i)list.*(?:/text|/config|/@)"),
        ("STARTUP_FILE", r"(?i)install module|set config"),
    ),
    "rpcping": (("CREDENTIAL_DUMP", r"(?i)ntlm"),),
    "runas": (("ROOT_SHELL", r""),),
    "psexec": (("REMOTE_EXECUTION", r""),),
    "psexec64": (("REMOTE_EXECUTION", r""),),
    "paexec": (("REMOTE_EXECUTION", r""),),
    "plink": (("REMOTE_EXECUTION", r"(?i)-pw|-m\b"),),
    "winrs": (("REMOTE_EXECUTION", r""),),
    "winrm": (("REMOTE_EXECUTION", r"(?i)invoke|quickconfig|set"),),
    "mstsc": (("REMOTE_EXECUTION", r"(?i)/v:|/shadow"),),
    "tscon": (("ROOT_SHELL", r""),),
    "wmic": (
        ("DELETE_BACKUPS", r"(?i)shadowcopy\b.*delete"),
        ("CREDENTIAL_DUMP", r"(?i)shadowcopy\b.*create"),
        ("REMOTE_SCRIPT", r"(?i)/format:[\"']?(?:https?:|ftp:)"),
        ("PROXY_EXECUTION", r"(?i)/format:\S*\.xsl"),
        ("REMOTE_EXECUTION", r"(?i)process\b.*call\b.*create|call uninstall|/node:.*call"),
        ("STOP_SERVICE", r"(?i)(?:call|delete)\b"),
        ("HOST_FACTS", r""),
    ),
    "certutil": (
        ("DOWNLOAD_TOOL", r"(?i)[-/](?:urlcache|verifyctl)|https?://"),
        ("TRUST_STORE", r"(?i)[-/]addstore"),
        ("CREDENTIAL_DUMP", r"(?i)volumeshadowcopy|config\\sam"),
        ("DECODED_RUN", r"(?i)[-/]decode(?:hex)?\b"),
        ("WORK_SENT", r"(?i)[-/]encode"),
    ),
    "certreq": (("DOWNLOAD_TOOL", r"(?i)-post.*https?:"),),
    "bitsadmin": (
        ("STARTUP_JOB", r"(?i)/setnotifycmdline"),
        ("DOWNLOAD_TOOL", r"(?i)/(?:transfer|addfile|create|resume)"),
    ),
    "desktopimgdownldr": (("DOWNLOAD_TOOL", r""),),
    **dict.fromkeys(
        (
            "finger",
            "imewdbld",
            "printbrm",
            "replace",
            "gup",
            "sqlcmd",
            "expand",
            "extrac32",
            "makecab",
            "onedrivestandaloneupdater",
            "hh",
            "msohtmed",
            "presentationhost",
            "configsecuritypolicy",
            "diantz",
            "cmdl32",
            "squirrel",
        ),
        (("DOWNLOAD_TOOL", r"(?i)https?:|\\\\|@"),),
    ),
    "curl": (("WORK_SENT", r"(?i)(?:-T|--upload-file|-d|-F) *[\"']?(?:[a-z]:\\|@?c:)"),),
    "mshta": (
        ("REMOTE_SCRIPT", r"(?i)https?:|javascript:|vbscript:|script:"),
        ("PROXY_EXECUTION", r""),
    ),
    "regsvr32": (("REMOTE_SCRIPT", r"(?i)https?:|scrobj"), ("PROXY_EXECUTION", r"")),
    "rundll32": (
        ("CREDENTIAL_DUMP", r"(?i)comsvcs|minidump|krshowkeymgr|keymgr"),
        ("REMOTE_SCRIPT", r"(?i)javascript:|vbscript:|https?:|script:"),
        ("DEFENCE_WEAKENED", r"(?i)lockworkstation|setupapi|advpack"),
        ("PROXY_EXECUTION", r""),
    ),
    "msiexec": (("REMOTE_SCRIPT", r"(?i)https?:"), ("PROXY_EXECUTION", r"(?i)/[yz]\b")),
    "cscript": (
        ("REMOTE_SCRIPT", r"(?i)https?:|script:"),
        ("PROXY_EXECUTION", r"(?i)pubprn|manage-bde|winrm\.vbs|syncappv|slmgr|\.vbs|\.js|\.wsf"),
    ),
    "wscript": (("REMOTE_SCRIPT", r"(?i)https?:|script:"), ("PROXY_EXECUTION", r"")),
    **dict.fromkeys(
        (
            "installutil",
            "regasm",
            "regsvcs",
            "odbcconf",
            "cmstp",
            "msxsl",
            "xwizard",
            "ieexec",
            "infdefaultinstall",
            "syncappvpublishingserver",
            "mavinject",
            "msdt",
            "dfsvc",
            "presentationhost",
            "pcalua",
            "scriptrunner",
            "forfiles",
            "conhost",
            "atbroker",
            "dnscmd",
            "gpscript",
            "runscripthelper",
            "rasautou",
            "tttracer",
            "bginfo",
            "wuauclt",
            "verclsid",
            "dllhost",
            "register-cimprovider",
            "workfolders",
            "advpack",
            "ie4uinit",
            "diskshadow",
            "customshellhost",
            "provlaunch",
            "fodhelper",
            "sdclt",
            "wsreset",
            "computerdefaults",
            "slui",
            "eventvwr",
            "desktopimgdownldr",
        ),
        (
            ("PROCESS_INJECTION", r"(?i)injectrunning"),
            ("PROXY_EXECUTION", r"\S"),
            ("PROXY_EXECUTION", r""),
        ),
    ),
    **dict.fromkeys(
        ("csc", "jsc", "vbc", "ilasm"),
        (("PROXY_EXECUTION", r"(?i)temp|appdata|public|programdata|%tmp"),),
    ),
    "msbuild": (("PROXY_EXECUTION", r"(?i)\\\\|https?:|\.xml\b|\.csproj\b.*temp"),),
    **dict.fromkeys(
        ("copy", "xcopy", "move"),
        (("PROXY_EXECUTION", r"(?i)(?:system32|syswow64|%windir%)\\\S+\.exe\"? +\S+"),),
    ),
    "dsquery": (("HOST_FACTS", r""),),
    "powershell": (
        (
            "HIDDEN_WINDOW",
            r"(?i)-(?:w\w*) +hid|-(?:ep|ex\w*) +(?:bypass|unrestricted)|-version 2|-v 2",
        ),
    ),
    "pwsh": (("HIDDEN_WINDOW", r"(?i)-(?:w\w*) +hid"),),
    "pktmon": (("EAVESDROP", r"(?i)start|filter"),),
    "psr": (("EAVESDROP", r"(?i)/start"),),
    "klist": (("HOST_FACTS", r""),),
    "dir": (("HOST_FACTS", r"(?i)/s|\\\\"),),
    "where": (("HOST_FACTS", r"(?i)/r"),),
    "tree": (("HOST_FACTS", r""),),
    "findstr": (("SECRET_READ", r"(?i)passw|cpassword|secret"),),
    "setspn": (("HOST_FACTS", r"(?i)-q|-l|-t"),),
    "manage-bde": (
        ("DEFENCE_OFF", r"(?i)-(?:off|protectors -delete|disable)"),
        ("ENCRYPT_IN_PLACE", r"(?i)-on"),
    ),
    "dism": (("DEFENCE_OFF", r"(?i)defender"), ("HOST_FACTS", r"")),
}
_REMOTE_CONTROL = split_names(
    "anydesk teamviewer teamviewer_setup rustdesk ammyy ultraviewer_desktop vncviewer winvnc"
    " strwinclt srserver netsupport remotepc logmein screenconnect gotoassist quickassist radmin"
    " dwagent supremo tailscale zerotier-cli"
)
for _verb in _REMOTE_CONTROL:
    WINDOWS_ROWS[_verb] = (("TUNNEL", r""),)
WINDOWS_ROWS["net1"] = WINDOWS_ROWS["net"]
