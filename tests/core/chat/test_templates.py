"""Templates: every name must have a value, rendering is pure, and nothing gets out of the sandbox."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.chat.templates import Template, is_template
from peira.errors import Invalid


@given(st.text())
def test_a_text_without_places_is_itself(text):
    if not is_template(text):
        # Jinja writes every kind of line end as a plain one.
        assert Template(text).render({}) == text.replace("\r\n", "\n").replace("\r", "\n")


@given(st.text(), st.lists(st.text()))
def test_values_are_put_in_as_they_are(value, items):
    text = Template("<{{ value }}|{% for item in items %}{{ item }},{% endfor %}>")
    expected = f"<{value}|{''.join(f'{item},' for item in items)}>"
    assert text.render({"value": value, "items": items}) == expected
    assert text.names == {"value", "items"}


def test_a_value_that_is_not_there_is_refused():
    with pytest.raises(Invalid, match="'missing' is undefined"):
        Template("{{ missing }}").render({"other": 1})
    with pytest.raises(Invalid, match="has no attribute 'b'"):
        Template("{{ a.b }}").render({"a": {"c": 1}})


def test_what_is_no_template_is_refused_with_its_line():
    with pytest.raises(Invalid, match="template: line 2: "):
        Template("a\n{{ b")


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ items.append(1) }}",
        "{{ 'x' * 1000000000 }}",
        "{{ 10 ** 10000000 }}",
        "{{ items | random }}",
        "{{ lipsum() }}",
        "{{ range(10000000000) | list }}",
        "{% include 'other' %}",
    ],
)
def test_nothing_impure_unsafe_or_huge(text):
    items = [1]
    with pytest.raises(Invalid):
        Template(text).render({"items": items})
    assert items == [1]


def test_numbers_may_be_multiplied():
    assert Template("{{ 6 * seven }}").render({"seven": 7}) == "42"
