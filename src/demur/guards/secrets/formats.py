"""The formats of credentials that can be told by their form, each with what proves it.

A format is found by a fixed text in it (its anchor), then by its whole form, then by a
check: a checksum where the issuer has one, else that the value is no placeholder. What
fails a checksum is most likely made up and only goes on record.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from demur.guards.secrets.checks import (
    check_checksum,
    check_random,
    check_test_key,
    check_url_password,
    check_web_token,
)
from demur.model.finding import Action

__all__ = ["FORMATS", "MAX_ANCHOR_LENGTH", "SecretFormat"]

SecretCheck = Callable[[str, re.Match[str]], Action | None]


class SecretFormat(NamedTuple):
    """One kind of credential: where it is found, its whole form, and the check."""

    kind: str
    anchor: str
    pattern: re.Pattern[str]
    # The maximum length of the form.
    width: int
    check: SecretCheck
    # The part of the form before the anchor, if it does not begin with it.
    lead: re.Pattern[str] | None = None


def _make_formats(
    kind: str,
    anchors: str,
    form: str,
    width: int,
    *,
    check: SecretCheck = check_random,
    lead: str | None = None,
) -> list[SecretFormat]:
    body = form if "(?P<secret>" in form else f"(?P<secret>{form})"
    pattern = re.compile(rf"(?<![A-Za-z0-9_]){body}(?![A-Za-z0-9_])", re.ASCII)
    edge = re.compile(rf"(?<![A-Za-z0-9_])(?:{lead})\Z", re.ASCII) if lead else None
    return [SecretFormat(kind, anchor, pattern, width, check, edge) for anchor in anchors.split()]


_WORD = "[A-Za-z0-9]"
_URLSAFE = "[A-Za-z0-9_-]"
_HEX = "[0-9a-f]"
_URL = (
    r"(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|sqlserver|oracle|clickhouse"
    r"|cockroachdb|s?ftp|ldaps?|smtps?|https?)(?:\+[a-z0-9]{1,12})?://"
    r"(?P<user>[\w.%+-]{0,64}):(?P<secret>(?:(?![:@/\"'`<>])[!-~]){4,128})@(?P<host>[\w.\[:\]-]{1,128})"
)

FORMATS = (
    *_make_formats("aws access key id", "AKIA ASIA", "A[KS]IA[A-Z2-7]{16}", 20),
    *_make_formats(
        "github token",
        "ghp_ gho_ ghu_ ghs_ ghr_",
        f"gh[pousr]_{_WORD}{{36,251}}",
        255,
        check=check_checksum,
    ),
    *_make_formats("github token", "github_pat_", f"github_pat_{_WORD}{{22}}_{_WORD}{{59}}", 93),
    *_make_formats("npm token", "npm_", f"npm_{_WORD}{{36}}", 40, check=check_checksum),
    *_make_formats("pypi token", "pypi-AgE", f"pypi-AgE{_URLSAFE}{{50,1000}}", 1010),
    *_make_formats(
        "gitlab token",
        "glpat- gldt- glrt- glptt- glcbt- glsoat- glft- glagent- gloas- glimt-",
        r"gl[a-z]{2,5}-[A-Za-z0-9_.-]{19,299}[A-Za-z0-9_-]",
        310,
    ),
    *_make_formats(
        "slack token",
        "xoxb- xoxp- xoxa- xoxo- xoxs- xoxr- xoxe-",
        r"xox[abeoprs]-[0-9A-Za-z-]{20,250}",
        256,
    ),
    *_make_formats(
        "slack token", "xapp-", rf"xapp-\d-[A-Z0-9]{{8,20}}-\d{{9,15}}-{_HEX}{{60,70}}", 120
    ),
    *_make_formats(
        "slack webhook",
        "hooks.slack.com/",
        rf"hooks\.slack\.com/(?:services|workflows)/T[A-Z0-9]{{6,14}}/[AB][A-Z0-9]{{6,14}}/{_WORD}{{20,30}}",
        90,
    ),
    *_make_formats("stripe key", "sk_live_ rk_live_", f"[sr]k_live_{_WORD}{{20,247}}", 256),
    *_make_formats(
        "stripe test key",
        "sk_test_ rk_test_",
        f"[sr]k_test_{_WORD}{{20,247}}",
        256,
        check=check_test_key,
    ),
    *_make_formats("stripe webhook secret", "whsec_", "whsec_[A-Za-z0-9+/]{24,60}", 67),
    *_make_formats(
        "openai key",
        "sk-",
        f"sk-(?:(?:proj|svcacct|admin)-)?{_URLSAFE}{{20,120}}T3BlbkFJ{_URLSAFE}{{20,120}}",
        260,
    ),
    *_make_formats(
        "anthropic key", "sk-ant-", rf"sk-ant-[a-z]{{3,6}}\d\d-{_URLSAFE}{{80,120}}", 140
    ),
    *_make_formats("model provider key", "sk-or-v1-", f"sk-or-v1-{_HEX}{{64}}", 73),
    *_make_formats("model provider key", "sk-", f"sk-{_HEX}{{32}}", 35),
    *_make_formats("model provider key", "gsk_", f"gsk_{_WORD}{{52}}", 56),
    *_make_formats("model provider key", "pplx-", f"pplx-{_WORD}{{48}}", 53),
    *_make_formats("model provider key", "xai-", f"xai-{_WORD}{{80}}", 84),
    *_make_formats("hugging face token", "hf_", "hf_[A-Za-z]{34}", 37),
    *_make_formats("replicate token", "r8_", f"r8_{_WORD}{{37}}", 40),
    *_make_formats("google api key", "AIza", f"AIza{_URLSAFE}{{35}}", 39),
    *_make_formats("google access token", "ya29.", rf"ya29\.{_URLSAFE}{{60,500}}", 505),
    *_make_formats("google client secret", "GOCSPX-", f"GOCSPX-{_URLSAFE}{{28}}", 35),
    *_make_formats(
        "azure storage key", "AccountKey=", "AccountKey=(?P<secret>[A-Za-z0-9+/]{86}==)", 99
    ),
    *_make_formats(
        "azure access key",
        "SharedAccessKey=",
        "SharedAccessKey=(?P<secret>[A-Za-z0-9+/]{42,43}={1,2})",
        62,
    ),
    *_make_formats(
        "azure client secret",
        "Q~",
        r"[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}",
        40,
        lead=r"[A-Za-z0-9_~.]{3}\d",
    ),
    *_make_formats("twilio key", "SK", f"SK{_HEX}{{32}}", 34),
    *_make_formats("sendgrid key", "SG.", rf"SG\.{_URLSAFE}{{22}}\.{_URLSAFE}{{43}}", 69),
    *_make_formats("mailgun key", "key-", f"key-{_HEX}{{32}}", 36),
    *_make_formats(
        "telegram bot token", ":AA", rf"\d{{8,10}}:AA{_URLSAFE}{{33}}", 46, lead=r"\d{8,10}"
    ),
    *_make_formats("digitalocean token", "dop_v1_ doo_v1_ dor_v1_", f"do[opr]_v1_{_HEX}{{64}}", 71),
    *_make_formats(
        "shopify token",
        "shpat_ shpss_ shpca_ shppa_",
        "shp(?:at|ss|ca|pa)_[0-9a-fA-F]{32}",
        38,
    ),
    *_make_formats("databricks token", "dapi", rf"dapi{_HEX}{{32}}(?:-\d)?", 38),
    *_make_formats("vault token", "hvs. hvb.", rf"hv[sb]\.{_URLSAFE}{{80,300}}", 304),
    *_make_formats("grafana token", "glsa_", f"glsa_{_WORD}{{32}}_{_HEX}{{8}}", 46),
    *_make_formats("docker token", "dckr_pat_", f"dckr_pat_{_URLSAFE}{{27,40}}", 49),
    *_make_formats("linear key", "lin_api_", f"lin_api_{_WORD}{{40}}", 48),
    *_make_formats("new relic key", "NRAK-", "NRAK-[A-Z0-9]{27}", 32),
    *_make_formats("square token", "sq0atp- sq0csp-", f"sq0(?:atp|csp)-{_URLSAFE}{{22,43}}", 50),
    *_make_formats("atlassian token", "ATATT3", "ATATT3[A-Za-z0-9_=-]{180,200}", 206),
    *_make_formats("figma token", "figd_", f"figd_{_URLSAFE}{{40}}", 45),
    *_make_formats("notion token", "ntn_", rf"ntn_\d{{11}}{_WORD}{{35}}", 50),
    *_make_formats("postman key", "PMAK-", f"PMAK-{_HEX}{{24}}-{_HEX}{{34}}", 64),
    *_make_formats(
        "terraform token",
        ".atlasv1.",
        rf"{_WORD}{{14}}\.atlasv1\.{_URLSAFE}{{60,70}}",
        93,
        lead=f"{_WORD}{{14}}",
    ),
    *_make_formats("age secret key", "AGE-SECRET-KEY-1", "AGE-SECRET-KEY-1[0-9A-Z]{58}", 74),
    *_make_formats(
        "json web token",
        "eyJ",
        rf"eyJ{_URLSAFE}{{8,1000}}\.eyJ{_URLSAFE}{{4,3000}}\.{_URLSAFE}{{8,1000}}",
        5010,
        check=check_web_token,
    ),
    *_make_formats(
        "password in an address",
        "://",
        _URL,
        360,
        check=check_url_password,
        lead=r"[A-Za-z0-9+]{3,26}",
    ),
)

MAX_ANCHOR_LENGTH = max(len(format_.anchor) for format_ in FORMATS)
