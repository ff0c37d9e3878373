r"""Keys of the Windows registry that make things run, guard the machine, or hold secrets.

Patterns over key paths in any spelling (`HKLM\...`, `HKLM:\...`), to be used caseless.
"""

__all__ = ["AUTOSTART", "DEFENCES", "SECRETS", "UAC"]

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
