from demur.codes.registry import Registry
from demur.codes.xref import TaxonomyReference, entry_references, load_taxonomies


def test_every_id_in_the_registry_is_listed(core: Registry) -> None:
    known = load_taxonomies()
    unlisted = [
        (entry.code, key, name)
        for entry in core
        for key, names in entry.xref.items()
        for name in names
        if key not in known or name not in known[key].ids
    ]

    assert unlisted == []


def test_every_taxonomy_and_id_has_a_title() -> None:
    for key, taxonomy in load_taxonomies().items():
        assert taxonomy.key == key
        assert all((taxonomy.title, taxonomy.version, *taxonomy.ids.values()))


def test_a_reference_is_told_in_the_words_of_its_taxonomy(core: Registry) -> None:
    assert entry_references(core["RCE_RISK"])[0] == TaxonomyReference(
        "OWASP Top 10 for LLM Applications 2025", "LLM05", "Improper Output Handling"
    )


def test_a_code_without_cross_references_has_none(core: Registry) -> None:
    assert entry_references(core["INTERNAL_ERROR"]) == ()


def test_what_an_organisation_refers_to_stays_as_it_was_written(core: Registry) -> None:
    entry = core["RCE_RISK"]._replace(xref={"acme": ("K1",), "atlas": ("AML.X",)})

    assert entry_references(entry) == (
        TaxonomyReference("acme", "K1", ""),
        TaxonomyReference("MITRE ATLAS 2026.09", "AML.X", ""),
    )
