"""The formats of credentials that can be told by their form, each with what proves it.

A format is found by a fixed text in it (its anchor), then by its whole form, then by a
check: a checksum where the issuer has one, else that the value is no placeholder. What
fails a checksum is most likely made up and only goes on record.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from demur.guards.secrets.checks import checked, drawn, for_tests, url_password, web_token
from demur.model.finding import Action

__all__ = ["FORMATS", "LONGEST_ANCHOR", "Format"]

Check = Callable[[str, re.Match[str]], Action | None]


class Format(NamedTuple):
    """One kind of credential: where it is found, its whole form, and the check."""

    kind: str
    anchor: str
    pattern: re.Pattern[str]
    # The maximum length of the form.
    width: int
    check: Check
    # The part of the form before the anchor, if it does not begin with it.
    lead: re.Pattern[str] | None = None


def _formats(
    kind: str,
    anchors: str,
    form: str,
    width: int,
    *,
    check: Check = drawn,
    lead: str | None = None,
) -> list[Format]:
    body = form if "(?P<secret>" in form else f"(?P<secret>{form})"
    pattern = re.compile(rf"(?<![A-Za-z0-9_]){body}(?![A-Za-z0-9_])", re.ASCII)
    edge = re.compile(rf"(?<![A-Za-z0-9_])(?:{lead})\Z", re.ASCII) if lead else None
    return [Format(kind, anchor, pattern, width, check, edge) for anchor in anchors.split()]


_WORD = "[A-Za-z0-9]"
_URLSAFE = "[A-Za-z0-9_-]"
_HEX = "[0-9a-f]"
_URL = (
    r"(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|sqlserver|oracle|clickhouse"
    r"|cockroachdb|s?ftp|ldaps?|smtps?|https?)(?:\+[a-z0-9]{1,12})?://"
    r"(?P<user>[\w.%+-]{0,64}):(?P<secret>(?:(?![:@/\"'`<>])[!-~]){4,128})@(?P<host>[\w.\[:\]-]{1,128})"
)

FORMATS = (
    *_formats("aws access key id", "AKIA ASIA", "A[KS]IA[A-Z2-7]{16}", 20),
    *_formats(
        "github token",
        "ghp_ gho_ ghu_ ghs_ ghr_",
        f"gh[pousr]_{_WORD}{{36,251}}",
        255,
        check=checked,
    ),
    *_formats("github token", "github_pat_", f"github_pat_{_WORD}{{22}}_{_WORD}{{59}}", 93),
    *_formats("npm token", "npm_", f"npm_{_WORD}{{36}}", 40, check=checked),
    *_formats("pypi token", "pypi-AgE", f"pypi-AgE{_URLSAFE}{{50,1000}}", 1010),
    *_formats(
        "gitlab token",
        "glpat- gldt- glrt- glptt- glcbt- glsoat- glft- glagent- gloas- glimt-",
        r"gl[a-z]{2,5}-[A-Za-z0-9_.-]{19,299}[A-Za-z0-9_-]",
        310,
    ),
    *_formats(
        "slack token",
        "xoxb- xoxp- xoxa- xoxo- xoxs- xoxr- xoxe-",
        r"xox[abeoprs]-[0-9A-Za-z-]{20,250}",
        256,
    ),
    *_formats("slack token", "xapp-", rf"xapp-\d-[A-Z0-9]{{8,20}}-\d{{9,15}}-{_HEX}{{60,70}}", 120),
    *_formats(
        "slack webhook",
        "hooks.slack.com/",
        rf"hooks\.slack\.com/(?:services|workflows)/T[A-Z0-9]{{6,14}}/[AB][A-Z0-9]{{6,14}}/{_WORD}{{20,30}}",
        90,
    ),
    *_formats("stripe key", "sk_live_ rk_live_", f"[sr]k_live_{_WORD}{{20,247}}", 256),
    *_formats(
        "stripe test key",
        "sk_test_ rk_test_",
        f"[sr]k_test_{_WORD}{{20,247}}",
        256,
        check=for_tests,
    ),
    *_formats("stripe webhook secret", "whsec_", "whsec_[A-Za-z0-9+/]{24,60}", 67),
    *_formats(
        "openai key",
        "sk-",
        f"sk-(?:(?:proj|svcacct|admin)-)?{_URLSAFE}{{20,120}}T3BlbkFJ{_URLSAFE}{{20,120}}",
        260,
    ),
    *_formats("anthropic key", "sk-ant-", rf"sk-ant-[a-z]{{3,6}}\d\d-{_URLSAFE}{{80,120}}", 140),
    *_formats("model provider key", "sk-or-v1-", f"sk-or-v1-{_HEX}{{64}}", 73),
    *_formats("model provider key", "sk-", f"sk-{_HEX}{{32}}", 35),
    *_formats("model provider key", "gsk_", f"gsk_{_WORD}{{52}}", 56),
    *_formats("model provider key", "pplx-", f"pplx-{_WORD}{{48}}", 53),
    *_formats("model provider key", "xai-", f"xai-{_WORD}{{80}}", 84),
    *_formats("hugging face token", "hf_", "hf_[A-Za-z]{34}", 37),
    *_formats("replicate token", "r8_", f"r8_{_WORD}{{37}}", 40),
    *_formats("google api key", "AIza", f"AIza{_URLSAFE}{{35}}", 39),
    *_formats("google access token", "ya29.", rf"ya29\.{_URLSAFE}{{60,500}}", 505),
    *_formats("google client secret", "GOCSPX-", f"GOCSPX-{_URLSAFE}{{28}}", 35),
    *_formats("azure storage key", "AccountKey=", "AccountKey=(?P<secret>[A-Za-z0-9+/]{86}==)", 99),
    *_formats(
        "azure access key",
        "SharedAccessKey=",
        "SharedAccessKey=(?P<secret>[A-Za-z0-9+/]{42,43}={1,2})",
        62,
    ),
    *_formats(
        "azure client secret",
        "Q~",
        r"[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}",
        40,
        lead=r"[A-Za-z0-9_~.]{3}\d",
    ),
    *_formats("twilio key", "SK", f"SK{_HEX}{{32}}", 34),
    *_formats("sendgrid key", "SG.", rf"SG\.{_URLSAFE}{{22}}\.{_URLSAFE}{{43}}", 69),
    *_formats("mailgun key", "key-", f"key-{_HEX}{{32}}", 36),
    *_formats("telegram bot token", ":AA", rf"\d{{8,10}}:AA{_URLSAFE}{{33}}", 46, lead=r"\d{8,10}"),
    *_formats("digitalocean token", "dop_v1_ doo_v1_ dor_v1_", f"do[opr]_v1_{_HEX}{{64}}", 71),
    *_formats(
        "shopify token",
        "shpat_ shpss_ shpca_ shppa_",
        "shp(?:at|ss|ca|pa)_[0-9a-fA-F]{32}",
        38,
    ),
    *_formats("databricks token", "dapi", rf"dapi{_HEX}{{32}}(?:-\d)?", 38),
    *_formats("vault token", "hvs. hvb.", rf"hv[sb]\.{_URLSAFE}{{80,300}}", 304),
    *_formats("grafana token", "glsa_", f"glsa_{_WORD}{{32}}_{_HEX}{{8}}", 46),
    *_formats("docker token", "dckr_pat_", f"dckr_pat_{_URLSAFE}{{27,40}}", 49),
    *_formats("linear key", "lin_api_", f"lin_api_{_WORD}{{40}}", 48),
    *_formats("new relic key", "NRAK-", "NRAK-[A-Z0-9]{27}", 32),
    *_formats("square token", "sq0atp- sq0csp-", f"sq0(?:atp|csp)-{_URLSAFE}{{22,43}}", 50),
    *_formats("atlassian token", "ATATT3", "ATATT3[A-Za-z0-9_=-]{180,200}", 206),
    *_formats("figma token", "figd_", f"figd_{_URLSAFE}{{40}}", 45),
    *_formats("notion token", "ntn_", rf"ntn_\d{{11}}{_WORD}{{35}}", 50),
    *_formats("postman key", "PMAK-", f"PMAK-{_HEX}{{24}}-{_HEX}{{34}}", 64),
    *_formats(
        "terraform token",
        ".atlasv1.",
        rf"{_WORD}{{14}}\.atlasv1\.{_URLSAFE}{{60,70}}",
        93,
        lead=f"{_WORD}{{14}}",
    ),
    *_formats("age secret key", "AGE-SECRET-KEY-1", "AGE-SECRET-KEY-1[0-9A-Z]{58}", 74),
    *_formats(
        "json web token",
        "eyJ",
        rf"eyJ{_URLSAFE}{{8,1000}}\.eyJ{_URLSAFE}{{4,3000}}\.{_URLSAFE}{{8,1000}}",
        5010,
        check=web_token,
    ),
    *_formats(
        "password in an address",
        "://",
        _URL,
        360,
        check=url_password,
        lead=r"[A-Za-z0-9+]{3,26}",
    ),
)

LONGEST_ANCHOR = max(len(format_.anchor) for format_ in FORMATS)
