"""Chat templates render as the reference renders them, in a sandbox."""

from __future__ import annotations

import json

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from glassformer.errors import ConfigError, InputError, LoadError, UnsupportedError
from glassformer.text.chat_template import choose_template, find_templates, render

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is <b>2 + 2</b>?"},
    {"role": "assistant", "content": "4"},
    {"role": "user", "content": "在中文里呢？"},
]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"x": "é"}}}]
TEMPLATES = {
    "tags": (
        "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] "
        "+ eos_token }}\n{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
    ),
    "blocks": """{{ bos_token }}
    {%- for message in messages %}
        {%- if message.role == "system" %}
            {%- continue %}
        {%- endif %}
        {%- if loop.index0 > 2 %}
            {%- break %}
        {%- endif %}
    [{{ message.role | upper }}] {{ message.content | trim }}
    {% endfor %}
{{ 'end' }}
""",
    "namespace": (
        "{% set ns = namespace(seen=0) %}{% for m in messages %}{% set ns.seen = ns.seen + 1 %}"
        "{{ ns.seen }}:{{ m.content }} {% endfor %}{{ ns.seen }}"
    ),
    "generation": (
        "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{% set x = 'in' %}"
        "{{ m.content }}{% endgeneration %}{{ x }}{% else %}{{ m.content }}{% endif %}{% endfor %}"
    ),
    "tools": "{{ tools | tojson(indent=2) }}{{ messages | tojson }}{{ strftime_now('%Y') }}",
}


@pytest.mark.parametrize("prompt", [False, True])
@pytest.mark.parametrize("name", TEMPLATES)
def test_rendered_as_by_the_reference(name, prompt):
    given = {"bos_token": "<s>", "eos_token": "</s>"}
    [theirs], _ = render_jinja_template(
        [CHAT], tools=TOOLS, chat_template=TEMPLATES[name], add_generation_prompt=prompt, **given
    )
    ours = render(
        TEMPLATES[name], CHAT, tools=TOOLS, add_generation_prompt=prompt, documents=None, **given
    )
    assert ours == theirs


@pytest.mark.parametrize("last", ["The answer is", "The answer is ", " it is"])
@pytest.mark.parametrize("content", ["m.content", "m.content | trim"])
def test_a_message_is_continued_as_by_the_reference(last, content):
    template = "{% for m in messages %}<{{ m.role }}>{{ " + content + " }}</s>{% endfor %}"
    chat = [*CHAT, {"role": "assistant", "content": last}]
    [theirs], _ = render_jinja_template([chat], chat_template=template, continue_final_message=True)
    assert render(template, chat, continue_final_message=True) == theirs


def test_templates_are_found_in_all_places():
    listed = {
        "chat_template": [
            {"name": "default", "template": "old"},
            {"name": "tool_use", "template": "tools"},
        ]
    }
    assert find_templates({}, {}) == {}
    assert find_templates({"chat_template": "a"}, {}) == {"default": "a"}
    assert find_templates(listed, {}) == {"default": "old", "tool_use": "tools"}
    files = {"chat_template.jinja": b"new", "additional_chat_templates/rag.jinja": b"docs"}
    assert find_templates(listed, files) == {"default": "new", "tool_use": "tools", "rag": "docs"}
    legacy = {"chat_template.json": json.dumps({"chat_template": "json"}).encode()}
    assert find_templates({}, legacy) == {"default": "json"}
    with pytest.raises(LoadError, match="without a name"):
        find_templates({"chat_template": [{"name": "default"}]}, {})


def test_a_template_is_chosen():
    templates = {"default": "plain", "tool_use": "tools", "rag": "docs"}
    assert choose_template(templates, None, with_tools=False) == "plain"
    assert choose_template(templates, None, with_tools=True) == "tools"
    assert choose_template(templates, "rag", with_tools=True) == "docs"
    assert choose_template({}, "{{ messages }}", with_tools=False) == "{{ messages }}"
    with pytest.raises(UnsupportedError, match="no default chat template; pass chat_template"):
        choose_template({}, None, with_tools=False)
    with pytest.raises(UnsupportedError, match="it has rag"):
        choose_template({"rag": "docs"}, None, with_tools=False)


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ raise_exception('Roles must alternate.') }}",
        "{% for i in range(10000000) %}x{% endfor %}",
        "{{ 1 / 0 }}",
        "{{ messages[0].content + 1 }}",
    ],
)
def test_what_a_template_may_not_do(template):
    with pytest.raises(
        InputError,
        match=r"The chat template (refuses this|fails on this|computes more than any) conversation",
    ):
        render(template, CHAT)


def test_bad_input_is_named():
    with pytest.raises(LoadError, match="error in line 2"):
        render("\n{% for %}", CHAT)
    for wrong, message in (
        ([], "is empty"),
        ("hello", "a list of messages"),
        ({"role": "user"}, "a list of messages"),
        ([{"content": "hello"}], "Message 0 is not a dict with a 'role'"),
    ):
        with pytest.raises(InputError, match=message):
            render("{{ messages }}", wrong)
    with pytest.raises(ConfigError, match="use one of them"):
        render("", CHAT, continue_final_message=True, add_generation_prompt=True)
    with pytest.raises(InputError, match="changes the last message"):
        render("{{ messages[-1].content | upper }}", [{"role": "user", "content": "aé"}],
               continue_final_message=True)  # fmt: skip
