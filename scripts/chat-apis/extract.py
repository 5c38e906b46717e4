"""Writes the API descriptions against which the fake chat platforms check requests: the operations and schemas in use of
each platform, reduced to names, types, required fields, enums and lengths.

    extract.py FOLDER

A schema not listed in KEEP becomes an unrestricted object, which is never an alternative to a listed one.
"""

import datetime
import enum
import importlib.metadata
import inspect
import json
import pathlib
import re
import sys
import types
import typing

ANY_OBJECT = {"type": "object"}


def ref(name):
    return {"$ref": f"#/definitions/{name}"}


def closed(properties, required):
    schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return schema | ({"required": sorted(required)} if required else {})


def cases(kind):
    return {"enum": sorted(case.value for case in kind)}


def any_of(schemas):
    unique = [schema for at, schema in enumerate(schemas) if schema not in schemas[:at]]
    # An unrestricted alternative would accept everything, so it is removed if others remain.
    if any("$ref" in schema for schema in unique):
        unique = [schema for schema in unique if schema != ANY_OBJECT]
    return unique[0] if len(unique) == 1 else {"anyOf": unique}


class Classes:
    """Converts annotated Python classes to definitions."""

    PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", datetime.datetime: "integer"}

    def __init__(self, keep):
        self.keep = keep
        self.definitions = {}

    def schema(self, annotation, nullable=False):
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            inner, *metadata = typing.get_args(annotation)
            return self.limited(self.schema(inner, nullable), metadata)
        if origin in (typing.Union, types.UnionType):
            kinds = [kind for kind in typing.get_args(annotation) if getattr(kind, "__name__", "") != "Default"]
            schemas = [self.schema(kind) for kind in kinds if kind is not type(None)]
            null = [{"type": "null"}] if nullable and type(None) in kinds else []
            return any_of(schemas + null)
        if origin is typing.Literal:
            return {"enum": list(typing.get_args(annotation))}
        if origin in (list, typing.Sequence) or getattr(origin, "__name__", "") == "Sequence":
            return {"type": "array", "items": self.schema(typing.get_args(annotation)[0])}
        if annotation in self.PLAIN:
            return {"type": self.PLAIN[annotation]}
        if inspect.isclass(annotation) and issubclass(annotation, enum.Enum):
            return cases(annotation)
        if inspect.isclass(annotation):
            return self.named(annotation)
        return {}

    def limited(self, schema, metadata):
        names = {"min_length": ("minLength", "minItems"), "max_length": ("maxLength", "maxItems"),
                 "ge": ("minimum", "minimum"), "le": ("maximum", "maximum")}
        for limit in metadata:
            for inner in getattr(limit, "metadata", None) or [limit]:
                for name, keywords in names.items():
                    value = getattr(inner, name, None)
                    if value is not None:
                        schema = schema | {keywords[schema.get("type") == "array"]: value}
        return schema

    def named(self, model):
        name = model.__name__
        if name not in self.keep:
            return ANY_OBJECT
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] = self.of_model(model)
        return ref(name)


class Pydantic(Classes):
    def of_model(self, model):
        if "actual_instance" in model.model_fields:
            schemas = [self.schema(field.annotation) for name, field in model.model_fields.items()
                       if re.search("(one|any)of_schema_", name)]
            return any_of(schemas)
        properties, required = {}, []
        for name, field in model.model_fields.items():
            if (field.json_schema_extra or {}).get("deprecated"):
                continue
            name = field.alias or name
            properties[name] = self.limited(self.schema(field.annotation, self.nullable), field.metadata)
            if field.is_required():
                required.append(name)
        for validator, pattern in self.patterns(model):
            if properties.get(validator, {}).get("type") == "string":
                properties[validator] = properties[validator] | {"pattern": pattern}
        return closed(properties, required)

    def patterns(self, _model):
        return []


class Telegram(Pydantic):
    """Reads classes generated from the tables of the Bot API."""

    nullable = False
    METHODS = ["AnswerCallbackQuery", "DeleteWebhook", "EditMessageText", "GetFile", "GetMe", "GetUpdates",
               "GetWebhookInfo", "SendChatAction", "SendMessage", "SetWebhook"]
    KEEP = [*METHODS, "CallbackQuery", "Chat", "InaccessibleMessage", "InlineKeyboardButton", "InlineKeyboardMarkup",
            "LinkPreviewOptions", "Message", "MessageEntity", "ReplyParameters", "Update", "User"]

    @classmethod
    def extract(cls):
        import aiogram
        import aiogram.enums as enums
        import aiogram.methods as methods
        import aiogram.types as models

        classes = cls(cls.KEEP)
        operations = {}
        for name in cls.METHODS:
            method = getattr(methods, name)
            operations[f"POST {method.__api_method__}"] = {"body": classes.named(method)}
        events = {"Update": classes.named(models.Update)}
        # The tables describe these in prose.
        classes.definitions["Chat"]["properties"]["type"] = cases(enums.ChatType)
        classes.definitions["MessageEntity"]["properties"]["type"] = cases(enums.MessageEntityType)
        classes.definitions["SendChatAction"]["properties"]["action"] = cases(enums.ChatAction)
        for method in ("SendMessage", "EditMessageText"):
            classes.definitions[method]["properties"]["parse_mode"] = cases(enums.ParseMode)
        source = f"the tables of the Bot API {aiogram.__api_version__}"
        return source, ["aiogram"], operations, events, classes.definitions


class Discord(Pydantic):
    """Reads classes generated from Discord's OpenAPI document."""

    nullable = True
    OPERATIONS = ["bulk_set_application_commands", "create_interaction_response", "create_message", "execute_webhook",
                  "get_bot_gateway", "get_my_application", "get_my_user", "trigger_typing_indicator", "update_message",
                  "update_original_webhook_message", "update_webhook_message"]
    KEEP = ["ActionRowComponentForMessageRequest", "ApplicationCommandAutocompleteCallbackRequest",
            "ActionRowComponentForMessageRequestComponentsInner",
            "ApplicationCommandAttachmentOption", "ApplicationCommandCreateRequestOptionsInner",
            "ApplicationCommandStringOption",
            "ApplicationCommandUpdateRequest", "ApplicationCommandUpdateRequestOptionsInner",
            "BaseCreateMessageCreateRequestComponentsInner", "ButtonComponentForMessageRequest",
            "CreateInteractionResponseRequest", "CreateMessageInteractionCallbackRequest", "ExecuteWebhookRequest",
            "IncomingWebhookInteractionRequest", "IncomingWebhookRequestPartial",
            "IncomingWebhookUpdateRequestPartial", "MessageAllowedMentionsRequest", "MessageCreateRequest",
            "MessageEditRequestPartial", "MessageReferenceRequest", "PongInteractionCallbackRequest",
            "UpdateMessageInteractionCallbackRequest"]

    def patterns(self, model):
        found = r"@field_validator\('(\w+)'\)\s+def \w+_validate_regular_expression.*?re\.match\(r\"([^\"]+)\""
        return re.findall(found, inspect.getsource(model), re.S)

    @classmethod
    def extract(cls):
        import openapi_client.api.default_api as api

        classes = cls(cls.KEEP)
        operations = {}
        for name in cls.OPERATIONS:
            source = inspect.getsource(getattr(api.DefaultApi, f"_{name}_serialize"))
            method, path = re.search(r"method='(\w+)'", source)[1], re.search(r"resource_path='/([^']+)'", source)[1]
            body = re.search(r"_body_params = (\w+)", source)
            hints = typing.get_type_hints(getattr(api.DefaultApi, name), include_extras=True)
            query = re.findall(r"_query_params\.append\(\('(\w+)'", source)
            operations[f"{method} {path}"] = (
                ({"body": classes.schema(hints[body[1]])} if body else {})
                | ({"query": {field: classes.schema(hints[field]) for field in query}} if query else {}))
        answers = typing.get_type_hints(api.DefaultApi.create_interaction_response, include_extras=True)
        events = {"InteractionResponse": classes.schema(answers["create_interaction_response_request"])}
        return "Discord's OpenAPI document, version 10", ["discordopenapi"], operations, events, classes.definitions


class Slack(Classes):
    """Reads the methods and blocks of Slack's own SDK."""

    METHODS = ["apps_connections_open", "auth_test", "chat_postMessage", "chat_update"]
    KEEP = ["ActionsBlock", "Block", "ButtonElement", "InteractiveElement", "MarkdownTextObject", "PlainTextObject",
            "SectionBlock", "TextObject"]
    # Variants in use of these types.
    CASES = {"Block": ["SectionBlock", "ActionsBlock"], "InteractiveElement": ["ButtonElement"],
             "TextObject": ["MarkdownTextObject", "PlainTextObject"]}

    def of_model(self, model):
        from slack_sdk.models.blocks import basic_components as basic, blocks, block_elements as elements

        cases = self.CASES.get(model.__name__)
        if cases:
            where = [basic, blocks, elements]
            return any_of([self.named(next(getattr(of, case) for of in where if hasattr(of, case))) for case in cases])
        properties, required = {"type": {"enum": [model.type]}}, ["type"]
        hints = typing.get_type_hints(model.__init__)
        for name, parameter in inspect.signature(model.__init__).parameters.items():
            if name in ("self", "others") or name not in hints:
                continue
            schema = without_objects(self.schema(hints[name]))
            most = getattr(model, f"{name}_max_length", None)
            if most and schema.get("type") == "array":
                schema = schema | {"maxItems": most, "minItems": 1}
            elif most and "$ref" in schema:
                schema = schema | {"properties": {"text": {"maxLength": most, "minLength": 1}}}
            elif most:
                schema = schema | {"maxLength": most}
            properties[name] = schema
            if parameter.default is inspect.Parameter.empty:
                required.append(name)
        if "style" in properties:
            properties["style"] = {"enum": sorted(basic.ButtonStyles)}
        return closed(properties, required)

    @classmethod
    def extract(cls):
        from slack_sdk import WebClient

        classes = cls(cls.KEEP)
        operations = {}
        for name in cls.METHODS:
            method = getattr(WebClient, name)
            path = re.search(r'api_call\(\s*"([\w.]+)"', inspect.getsource(method))[1]
            hints = typing.get_type_hints(method)
            properties, required = {}, []
            for field, parameter in inspect.signature(method).parameters.items():
                # The token is sent in a header.
                if field in ("self", "kwargs", "app_token"):
                    continue
                properties[field] = without_objects(classes.schema(hints[field]))
                if parameter.default is inspect.Parameter.empty:
                    required.append(field)
            classes.definitions[path] = closed(properties, required)
            operations[f"POST {path}"] = {"body": ref(path)}
        return "the Web API, as Slack's SDK has it", ["slack-sdk"], operations, {}, classes.definitions


def without_objects(schema):
    """Removes the unrestricted object and string alternatives that the SDK accepts in addition to known types."""
    if "anyOf" in schema:
        named = [case for case in schema["anyOf"] if "$ref" in case]
        return any_of(named or [without_objects(case) for case in schema["anyOf"]])
    if "items" in schema:
        return schema | {"items": without_objects(schema["items"])}
    return schema


class Teams:
    """Reads classes that Microsoft generated from the description of the Connector API."""

    KEEP = ["Activity", "Attachment", "ChannelAccount", "ConversationAccount", "Entity"]
    PLAIN = {"str": "string", "bool": "boolean", "int": "integer", "float": "number"}

    @classmethod
    def extract(cls):
        import botbuilder.schema as models

        def schema(kind):
            if kind.startswith("["):
                return {"type": "array", "items": schema(kind[1:-1])}
            if kind == "iso-8601":
                return {"type": "string", "format": "date-time"}
            # `object` means any type.
            return {"type": cls.PLAIN[kind]} if kind in cls.PLAIN else ref(kind) if kind in cls.KEEP else {}

        definitions = {}
        for name in cls.KEEP:
            model = getattr(models, name)
            properties = {field["key"]: schema(field["type"]) for field in model._attribute_map.values()}
            required = [model._attribute_map[field]["key"] for field, rule in
                        getattr(model, "_validation", {}).items() if rule.get("required")]
            definitions[name] = closed(properties, required)
        # The remaining fields of an entity depend on its type.
        del definitions["Entity"]["additionalProperties"]
        account = definitions["ConversationAccount"]["properties"]
        # Upper case only in this SDK; the service uses the spelling of the others.
        account["tenantId"] = account.pop("tenantID")
        for field, kind in (("type", models.ActivityTypes), ("textFormat", models.TextFormatTypes)):
            definitions["Activity"]["properties"][field] = cases(kind)
        source = installed("botframework-connector", "operations/_conversations_operations.py").read_text()
        operations = {}
        for function in source.split("    def ")[1:]:
            name = re.match(r"\w+", function)[0]
            if name in ("send_to_conversation", "reply_to_activity", "update_activity"):
                method = re.search(r"request = self\._client\.(\w+)\(", function)[1].upper()
                path = re.search(r'\.metadata = \{\s*"url": "/([^"]+)"', function)[1]
                operations[f"{method} {path}"] = {"body": ref("Activity")}
        return ("the Connector API v3, as Microsoft's SDK has it", ["botbuilder-schema", "botframework-connector"],
                operations, {"Activity": ref("Activity")}, definitions)


class GoogleChat:
    """Reads the discovery document."""

    KEEP = ["ActionParameter", "Attachment", "CardWithId", "CommonEventObject", "DeprecatedEvent", "FormAction",
            "GoogleAppsCardV1Action", "GoogleAppsCardV1ActionParameter", "GoogleAppsCardV1Button",
            "GoogleAppsCardV1ButtonList", "GoogleAppsCardV1Card", "GoogleAppsCardV1OnClick",
            "GoogleAppsCardV1Section", "GoogleAppsCardV1Widget", "Message", "Space", "Thread", "User"]

    @classmethod
    def extract(cls):
        document = json.loads(installed("google-api-python-client", "documents/chat.v1.json").read_text())

        def schema(of):
            if "$ref" in of:
                return ref(of["$ref"]) if of["$ref"] in cls.KEEP else ANY_OBJECT
            if of.get("type") == "array":
                return {"type": "array", "items": schema(of["items"])}
            if of.get("type") == "object":
                if "properties" in of:
                    return closed({name: schema(field) for name, field in of["properties"].items()}, [])
                return ANY_OBJECT | {"additionalProperties": schema(of.get("additionalProperties", {}))}
            kept = {name: of[name] for name in ("type", "enum", "pattern") if name in of}
            return kept if kept.get("type") != "any" else {}

        definitions = {name: schema(document["schemas"][name]) for name in cls.KEEP}
        methods = document["resources"]["spaces"]["resources"]["messages"]["methods"]
        operations = {}
        for name in ("create", "patch"):
            method = methods[name]
            query = {field: schema(of) for field, of in method["parameters"].items() if of["location"] == "query"}
            path = method["flatPath"]
            operations[f"{method['httpMethod']} {path}"] = {"body": schema(method["request"]), "query": query}
        source = f"the discovery document chat:v1, revision {document['revision']}"
        events = {"Event": ref("DeprecatedEvent")}
        return source, ["google-api-python-client"], operations, events, definitions


def installed(package, ending):
    files = importlib.metadata.files(package)
    return next(pathlib.Path(file.locate()) for file in files if str(file).endswith(ending))


def written(parts):
    """Writes one line per operation and definition, so that diffs are readable."""
    lines = []
    for name, part in parts.items():
        if isinstance(part, dict):
            inner = ",\n".join(f"  {json.dumps(key)}: {json.dumps(part[key], sort_keys=True)}" for key in sorted(part))
            lines.append(f' "{name}": {{\n{inner}\n }}' if part else f' "{name}": {{}}')
        else:
            lines.append(f' "{name}": {json.dumps(part)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main(folder):
    platforms = {"discord": Discord, "google_chat": GoogleChat, "slack": Slack, "teams": Teams, "telegram": Telegram}
    for name, platform in platforms.items():
        source, packages, operations, events, definitions = platform.extract()
        versions = " and ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)
        text = written({"source": source, "taken_from": versions, "operations": operations, "events": events,
                        "definitions": definitions})
        (folder / f"{name}.json").write_text(text)


main(pathlib.Path(sys.argv[1]))
