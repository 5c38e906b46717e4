//! Compares the error codes in the code with their reference, `docs/reference/errors.md`.

use std::collections::BTreeSet;
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{
    Block, Expr, ExprAssign, ExprCall, ExprStruct, ImplItemFn, Item, ItemFn, ItemImpl, LitStr, Member, ReturnType,
    Signature, Type,
};

use crate::file_cycles::is_test;
use crate::tidy::{folders, root};

const REFERENCE: &str = "docs/reference/errors.md";

/// Libraries whose errors reach the API, besides the crates of the daemon.
const LIBRARIES: [&str; 10] =
    ["web", "base", "net", "store", "llm", "mcp", "sandbox", "browser", "search-index", "inference"];

/// Codes that no response, event or stored failure contains, with the reason.
const INTERNAL_CODES: [(&str, &str); 20] = [
    ("bad_backup", "a restore reports it as `bad_archive`"),
    ("bad_bootstrap_key", "ends the start of the daemon"),
    ("bad_database_url", "ends the start of the daemon"),
    ("encoding_not_supported", "only the message reaches the model, as the failure of a tool call"),
    ("host_missing", "addresses are validated before they are stored"),
    ("idempotency_conflict", "replaced by the stored response"),
    ("input_not_an_object", "only the message reaches the model, as the failure of a tool call"),
    ("input_required", "only the message reaches the model, as the failure of a tool call"),
    ("invalid", "an error of the built-in model, reported as an error of its provider"),
    ("lease_lost", "ends background work that another process has taken over"),
    ("model_missing", "an error of the built-in model, reported as an error of its provider"),
    ("redirect_refused", "only the message reaches the model, as the failure of a tool call"),
    ("sandbox_network_forbidden", "only the message reaches the model, as the failure of a tool call"),
    ("scheme_not_supported", "addresses are validated before they are stored"),
    ("search_index", "memory reports it as `index_unavailable`"),
    ("session_lost", "ends a turn that another process has ended"),
    ("too_many_redirects", "only the message reaches the model, as the failure of a tool call"),
    ("tool_changed", "only the message reaches the model, as the failure of a tool call"),
    ("unavailable", "an error of the built-in model, reported as an error of its provider"),
    ("unsupported_cpu", "an error of the built-in model, reported as an error of its provider"),
];

/// Codes that [`CodeCollector`] does not find, such as those in macros and tuples, with their files.
const OTHER_CODES: [(&str, &str); 7] = [
    ("component_unavailable", "crates/daemon/operations/src/monitoring/probe.rs"),
    ("condition_failed", "crates/daemon/automation/src/scheduler/execute.rs"),
    ("invalid_tools", "crates/daemon/integrations/src/devices/session/mod.rs"),
    ("malformed_frame", "crates/daemon/integrations/src/devices/session/mod.rs"),
    ("too_many_replies", "crates/daemon/integrations/src/devices/session/mod.rs"),
    ("tool_limit", "crates/daemon/engine/src/engine/turn/persist.rs"),
    ("tool_server_hangs", "crates/daemon/engine/src/tool_servers/supervisor.rs"),
];

#[test]
fn error_reference_lists_every_code() {
    let mut codes = collect_codes();
    for (code, file) in OTHER_CODES {
        let text = std::fs::read_to_string(root().join(file)).expect("a source file");
        assert!(text.contains(&format!("\"{code}\"")), "{file} no longer contains `{code}`: update OTHER_CODES");
        codes.insert(code.to_owned());
    }
    for (code, _) in INTERNAL_CODES {
        assert!(codes.remove(code), "no code is `{code}`: remove it from INTERNAL_CODES");
    }
    let documented = documented_codes();
    let missing_rows: Vec<&String> = codes.difference(&documented).collect();
    let obsolete_rows: Vec<&String> = documented.difference(&codes).collect();
    assert!(
        missing_rows.is_empty() && obsolete_rows.is_empty(),
        "{REFERENCE} differs from the code\ncodes without a row: {missing_rows:#?}\nrows without a code: {obsolete_rows:#?}"
    );
}

#[test]
fn collector_finds_codes_in_every_form() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a file");
    write(
        "lib.rs",
        r#"
        mod inner { impl E { fn code(&self) -> &'static str { match self { Self::A => "from_method", _ => "Not one" } } } }
        mod other;
        fn code_of(error: &E) -> &'static str { "from_function" }
        fn code(text: &str) -> String { "of_text".to_owned() }
        impl ModelErrorCode { fn as_str(self) -> &'static str { "from_enum" } }
        impl Mode { fn as_str(self) -> &'static str { "no_error" } }
        #[cfg(test)] mod tests { impl E { fn code(&self) -> &'static str { "in_test" } } }
        #[cfg(test)] mod files_of_tests;
        "#,
    );
    write(
        "other.rs",
        r#"
        fn f() -> ApiError { ApiError::new(StatusCode::CONFLICT, "from_constructor", "a_message") }
        fn g() { Failure::local("from_failure", "a_message"); Other::new(1, "no_code"); }
        fn h(mut failure: Failure) { failure.code = "from_assignment"; failure.other = "no_code"; }
        fn i() -> NoAnswer { NoAnswer { code: "from_field".to_owned(), message: "a_message".to_owned() } }
        "#,
    );
    write("files_of_tests.rs", "not Rust");
    let mut collector = CodeCollector::default();
    collector.read_crate(folder.path());
    let expected = [
        "from_assignment",
        "from_constructor",
        "from_enum",
        "from_failure",
        "from_field",
        "from_function",
        "from_method",
    ];
    assert_eq!(collector.codes, BTreeSet::from(expected.map(str::to_owned)));
}

/// Returns the codes in the first column of all tables of the reference.
fn documented_codes() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join(REFERENCE)).expect("the reference of error codes");
    // The tables of the introduction have other first columns.
    let (_, sections) = text.split_once("\n## Requests and authentication\n").expect("the first section");
    let rows = sections.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once("` |")).map(|(code, _)| code.to_owned()).collect()
}

fn collect_codes() -> BTreeSet<String> {
    let mut collector = CodeCollector::default();
    for folder in folders(&root().join("crates/daemon")) {
        collector.read_crate(&folder.join("src"));
    }
    for library in LIBRARIES {
        collector.read_crate(&root().join("crates/libs").join(library).join("src"));
    }
    collector.codes
}

/// Collects the codes of a crate, except in modules for tests.
///
/// A code is a string literal in snake case in one of these places: the body of a function `code` without arguments or
/// `code_of` that returns `&str`, or of `as_str` of a type `…ErrorCode`; the argument `code` of `ApiError::new` and
/// `Failure::local`; a value of a field `code`.
#[derive(Default)]
struct CodeCollector {
    codes: BTreeSet<String>,
    /// Whether the current `impl` block is one of an enum of codes.
    is_code_type: bool,
}

impl CodeCollector {
    fn read_crate(&mut self, source: &Path) {
        for name in ["lib.rs", "main.rs"] {
            let path = source.join(name);
            if path.exists() {
                self.read_file(&path, source);
            }
        }
    }

    /// Reads a file whose submodules are in `folder`.
    fn read_file(&mut self, path: &Path, folder: &Path) {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.read_items(&parsed.items, folder);
    }

    fn read_items(&mut self, items: &[Item], folder: &Path) {
        for item in items {
            let Item::Mod(module) = item else {
                self.visit_item(item);
                continue;
            };
            if is_test(&module.attrs) {
                continue;
            }
            let folder_of_module = folder.join(module.ident.to_string());
            let (with_submodules, single) =
                (folder_of_module.join("mod.rs"), folder.join(format!("{}.rs", module.ident)));
            match &module.content {
                Some((_, items)) => self.read_items(items, &folder_of_module),
                None if with_submodules.exists() => self.read_file(&with_submodules, &folder_of_module),
                None => self.read_file(&single, &folder_of_module),
            }
        }
    }

    fn add(&mut self, literal: &LitStr) {
        let text = literal.value();
        let is_snake_case = text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if is_snake_case {
            self.codes.insert(text);
        }
    }

    fn add_literals(&mut self, block: &Block) {
        let mut literals = Literals::default();
        literals.visit_block(block);
        literals.0.iter().for_each(|literal| self.add(literal));
    }

    fn add_expression(&mut self, expression: &Expr) {
        if let Some(literal) = literal_of(expression) {
            self.add(literal);
        }
    }

    fn read_function(&mut self, signature: &Signature, block: &Block) {
        let has_only_self = signature.inputs.iter().all(|input| matches!(input, syn::FnArg::Receiver(_)));
        let name = &signature.ident;
        let is_of_codes =
            (name == "code" && has_only_self) || name == "code_of" || (name == "as_str" && self.is_code_type);
        if is_of_codes && returns_str(signature) {
            self.add_literals(block);
        }
    }
}

impl<'ast> Visit<'ast> for CodeCollector {
    fn visit_item_impl(&mut self, block: &'ast ItemImpl) {
        let name = match &*block.self_ty {
            Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        self.is_code_type = name.is_some_and(|name| name.ends_with("ErrorCode"));
        visit::visit_item_impl(self, block);
        self.is_code_type = false;
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.read_function(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.read_function(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        let path = path_of(&call.func);
        match path.as_slice() {
            [.., of, function] if of == "Failure" && function == "local" => {
                if let Some(code) = call.args.first() {
                    self.add_expression(code);
                }
            }
            // `Self::new` in the crate of `ApiError`; the status tells it from other constructors.
            [.., function] if function == "new" => {
                let mut arguments = call.args.iter();
                let has_status =
                    arguments.next().is_some_and(|first| path_of(first).iter().any(|name| name == "StatusCode"));
                if let Some(code) = arguments.next().filter(|_| has_status) {
                    self.add_expression(code);
                }
            }
            _ => {}
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_struct(&mut self, value: &'ast ExprStruct) {
        for field in value.fields.iter().filter(|field| is_code(&field.member)) {
            self.add_expression(&field.expr);
        }
        visit::visit_expr_struct(self, value);
    }

    fn visit_expr_assign(&mut self, assignment: &'ast ExprAssign) {
        if let Expr::Field(field) = &*assignment.left
            && is_code(&field.member)
        {
            self.add_expression(&assignment.right);
        }
        visit::visit_expr_assign(self, assignment);
    }
}

/// Collects string literals.
#[derive(Default)]
struct Literals<'ast>(Vec<&'ast LitStr>);

impl<'ast> Visit<'ast> for Literals<'ast> {
    fn visit_lit_str(&mut self, literal: &'ast LitStr) {
        self.0.push(literal);
    }
}

fn is_code(member: &Member) -> bool {
    matches!(member, Member::Named(name) if name == "code")
}

fn returns_str(signature: &Signature) -> bool {
    let ReturnType::Type(_, returned) = &signature.output else { return false };
    let Type::Reference(reference) = &**returned else { return false };
    matches!(&*reference.elem, Type::Path(path) if path.path.is_ident("str"))
}

/// Returns the names of a path; empty for other expressions.
fn path_of(expression: &Expr) -> Vec<String> {
    match expression {
        Expr::Path(path) => path.path.segments.iter().map(|segment| segment.ident.to_string()).collect(),
        _ => Vec::new(),
    }
}

/// Returns the string of `"…"` and of conversions such as `"…".to_owned()`.
fn literal_of(expression: &Expr) -> Option<&LitStr> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            syn::Lit::Str(text) => Some(text),
            _ => None,
        },
        Expr::MethodCall(call) => literal_of(&call.receiver),
        _ => None,
    }
}
