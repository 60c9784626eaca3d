"""Chat templates: Jinja templates that write a conversation as the text a model was trained on.

The environment has the filters and functions that published templates expect. Templates come with
checkpoints, so they run in Jinja's sandbox, which denies access to Python's internals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from glassformer.errors import (
    ConfigError,
    GlassformerError,
    InputError,
    LoadError,
    UnsupportedError,
)
from glassformer.storage.parsing import parse_json
from glassformer.text import template_limits
from glassformer.text.template_limits import limited_lines

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.parser import Parser

Message = Mapping[str, Any]
TEMPLATE_FILE = "chat_template.jinja"
LEGACY_FILE = "chat_template.json"
FOLDER = "additional_chat_templates/"


def find_templates(settings: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, str]:
    """Finds the templates of a tokenizer; a file of its own takes precedence over the settings.

    Args:
        settings: The contents of tokenizer_config.json.
        files: The contents of the files beside it, by relative path.

    Returns:
        The templates by name; that of plain conversations is "default".
    """
    found: dict[str, str] = {}
    stored = settings.get("chat_template")
    if isinstance(stored, str):
        found["default"] = stored
    elif isinstance(stored, list):
        for entry in stored:
            if not (isinstance(entry, dict) and {"name", "template"} <= entry.keys()):
                raise LoadError(
                    "tokenizer_config.json lists a chat template without a name or a template."
                )
            found[str(entry["name"])] = str(entry["template"])
    for path, content in files.items():
        if path == LEGACY_FILE:
            found["default"] = template_in(content)
        elif path.startswith(FOLDER):
            found[path.removeprefix(FOLDER).removesuffix(".jinja")] = decoded(path, content)
    if TEMPLATE_FILE in files:
        found["default"] = decoded(TEMPLATE_FILE, files[TEMPLATE_FILE])
    return found


def decoded(path: str, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoadError(
            f"The chat template {path} is not UTF-8 text: byte {error.start} cannot be read."
        ) from None


def template_in(content: bytes) -> str:
    """Returns the template in chat_template.json."""
    try:
        template = parse_json(content)["chat_template"]
    except (ValueError, KeyError, TypeError):
        template = None
    if not isinstance(template, str):
        raise LoadError(f"{LEGACY_FILE} must be a JSON object with a chat_template; get it again.")
    return template


def choose_template(templates: Mapping[str, str], name: str | None, with_tools: bool) -> str:
    """Chooses a template by name, or else the one for tools or for plain conversations.

    Args:
        templates: The templates by name.
        name: The name of a template, or a template itself; None chooses.
        with_tools: Whether the conversation has tools.

    Returns:
        The template.
    """
    if name is not None:
        return templates.get(name, name)
    if with_tools and "tool_use" in templates:
        return templates["tool_use"]
    if "default" in templates:
        return templates["default"]
    known = f"; it has {', '.join(sorted(templates))}, so name one" if templates else ""
    raise UnsupportedError(
        f"The tokenizer has no default chat template{known}; pass chat_template, or use generate "
        "if the model was not trained on conversations.",
        field="chat_template",
    )


def render(
    template: str,
    messages: Sequence[Message],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    documents: Sequence[Mapping[str, str]] | None = None,
    add_generation_prompt: bool = False,
    continue_final_message: bool = False,
    **variables: Any,
) -> str:
    """Writes a conversation as text.

    Args:
        template: The Jinja template.
        messages: Dicts with a "role" and a "content".
        tools: JSON schemas of functions that the model may call.
        documents: Dicts with a "title" and a "text", for models trained to cite them.
        add_generation_prompt: Whether to end with the beginning of the assistant's answer.
        continue_final_message: Whether to end within the last message, so that the model
            continues it.
        **variables: Further variables of the template, such as `bos_token`.

    Returns:
        The text.
    """
    from jinja2.exceptions import TemplateError

    check_messages(messages)
    if continue_final_message and add_generation_prompt:
        raise ConfigError(
            "continue_final_message continues the last message, and add_generation_prompt starts "
            "a new one; use one of them."
        )
    try:
        with limited_lines():
            text = compiled(template).render(
                messages=[dict(message) for message in messages],
                tools=tools,
                documents=documents,
                add_generation_prompt=add_generation_prompt,
                **variables,
            )
    except GlassformerError:
        raise
    except TemplateError as error:
        raise InputError(f"The chat template refuses this conversation: {error}.") from None
    except (TypeError, ValueError, KeyError, ArithmeticError, RecursionError) as error:
        raise InputError(f"The chat template fails on this conversation: {error}.") from None
    if continue_final_message:
        return until_message(text, str(messages[-1]["content"]))
    return text


def until_message(text: str, message: str) -> str:
    """Cuts a rendered conversation after its last message.

    Args:
        text: The rendered conversation.
        message: The content of the last message.

    Returns:
        The text up to the end of the message.
    """
    start = text.rfind(message.strip())
    if start < 0:
        raise InputError(
            "The chat template changes the last message, so it cannot be continued; use "
            "add_generation_prompt."
        )
    end = start + len(message.strip())
    if text[start : start + len(message.lstrip())] == message.lstrip():
        end = start + len(message.lstrip())  # the template keeps trailing spaces
    return text[:end]


def check_messages(messages: Sequence[Message]) -> None:
    """Raises an error unless these are messages."""
    if isinstance(messages, str | Mapping):
        raise InputError(
            'A conversation is a list of messages: [{"role": "user", "content": ...}].'
        )
    if not messages:
        raise InputError("The conversation is empty; it needs at least one message.")
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping) or "role" not in message:
            raise InputError(f"Message {number} is not a dict with a 'role' and a 'content'.")


@lru_cache(maxsize=32)
def compiled(template: str) -> Template:
    """Compiles a template in a sandbox with the functions that published templates expect."""
    try:
        import jinja2
        from jinja2.ext import Extension
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise UnsupportedError(
            "Chat templates need Jinja; install it with: pip install 'glassformer[chat]'.",
            field="chat_template",
        ) from None

    class GenerationTag(Extension):
        """The tag {% generation %}, which marks the assistant's words and changes no text."""

        tags: set[str] = {"generation"}  # noqa: RUF012 - as the base class declares it

        def parse(self, parser: Parser) -> jinja2.nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body).set_lineno(line)

    class Limited(ImmutableSandboxedEnvironment):
        """A sandbox that also limits the size of what operators and methods return."""

        intercepted_binops = frozenset(("+", "*", "**", "%"))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            template_limits.check_operands(operator, left, right)
            return template_limits.checked(super().call_binop(context, operator, left, right))

        def call(self, context: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
            template_limits.check_numbers(*args, *kwargs.values())
            return template_limits.checked(super().call(context, function, *args, **kwargs))

        def wrap_str_format(self, value: Any) -> Any:
            text = getattr(value, "__self__", None)
            if isinstance(text, str) and value.__name__ in ("format", "format_map"):
                template_limits.check_format(text)
            return super().wrap_str_format(value)

    environment = Limited(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = to_json
    environment.globals |= {
        "raise_exception": raise_exception,
        "strftime_now": lambda pattern: datetime.now().strftime(pattern),
    }
    template_limits.limit(environment)
    try:
        made = environment.from_string(template)
        template_limits.limit_joins(made)
        return made
    except RecursionError:
        raise LoadError("The chat template is nested too deeply.") from None
    except jinja2.TemplateSyntaxError as error:
        raise LoadError(
            f"The chat template has an error in line {error.lineno}: {error}."
        ) from None


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The filter `tojson` without the HTML escapes of Jinja's own."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def raise_exception(message: str) -> None:
    """Lets a template refuse a conversation."""
    from jinja2.exceptions import TemplateError

    raise TemplateError(message)
