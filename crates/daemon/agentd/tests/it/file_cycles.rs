//! Files of a crate must not depend on each other in a cycle, directly or through other files.
//!
//! A file depends on what its `use` items and paths name. It also depends on the file with an inherent method that one
//! of its `impl` blocks calls on `self` or `Self`. A re-exported name counts as the file that defines it. Other method
//! calls are not resolved, because that would require types.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprMethodCall, ImplItem, Item, ItemImpl, ItemMod, UseTree, VisRestricted, Visibility};

use crate::tidy::{folders, root};

#[test]
fn files_of_a_crate_have_no_dependency_cycles() {
    let mut cycles = Vec::new();
    for group in ["crates/daemon", "crates/libs"] {
        for folder in folders(&root().join(group)) {
            let found = SourceTree::read(&folder.join("src")).cycles();
            cycles.extend(found.into_iter().map(|cycle| format!("{}: {}", folder.display(), cycle.join(", "))));
        }
    }
    assert!(cycles.is_empty(), "move the shared code to a file that depends on neither: {cycles:#?}");
}

#[test]
fn cycles_of_every_kind_are_detected() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a file");
    write("lib.rs", "mod a; mod b; pub use a::A; pub fn f(a: A) { a.go() }");
    for (a, b, is_cycle) in [
        ("pub struct A;", "pub fn b(_: crate::A) {}", false),
        ("use crate::b::B; pub struct A(B);", "pub struct B;", false),
        ("use crate::b::B; pub struct A(B);", "pub struct B; pub fn b(_: crate::A) {}", true),
        ("pub struct A; pub fn a() { super::b::b() }", "use super::a; pub fn b() { a::a() }", true),
        ("pub struct A; impl A { fn a(&self) { self.b() } }", "use crate::A; impl A { fn b(&self) {} }", true),
        ("pub struct A; impl A { fn a(&self) {} }", "use crate::A; impl A { fn b(&self) { self.a() } }", false),
        ("pub struct A; #[cfg(test)] mod tests { use crate::b; }", "use crate::A;", false),
    ] {
        write("a.rs", a);
        write("b.rs", b);
        let cycles = SourceTree::read(folder.path()).cycles();
        assert_eq!(!cycles.is_empty(), is_cycle, "{a} / {b}: {cycles:?}");
    }
}

type ModulePath = Vec<String>;

/// A module: its file and the names that it defines, imports, and re-exports.
#[derive(Default)]
struct Module {
    file: String,
    items: BTreeSet<String>,
    /// Maps local names to their paths, relative to the module.
    imports: BTreeMap<String, ModulePath>,
    globs: Vec<ModulePath>,
}

/// A reference to an item, as written in the source.
struct Reference {
    module: ModulePath,
    path: ModulePath,
    origin: String,
}

#[derive(Default)]
struct SourceTree {
    modules: BTreeMap<ModulePath, Module>,
    references: Vec<Reference>,
    /// Maps a type (module and name) and a method to the file with that method in an inherent `impl`.
    methods: BTreeMap<(ModulePath, String), String>,
    impls: Vec<(ModulePath, ItemImpl)>,
}

pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Meta>().is_ok_and(|meta| meta.path().is_ident("test"))
    })
}

impl SourceTree {
    /// Reads the files of a crate; `source` is the folder of its root.
    fn read(source: &Path) -> Self {
        let mut tree = Self::default();
        let root = ["lib.rs", "main.rs"].into_iter().find(|name| source.join(name).exists()).expect("a root");
        tree.read_file(source, root, Vec::new(), source);
        tree.add_method_references();
        tree
    }

    fn read_file(&mut self, root: &Path, name: &str, module: ModulePath, folder: &Path) {
        let path = folder.join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file = path.strip_prefix(root).expect("inside").display().to_string();
        self.read_module(root, &file, module, parsed.items, folder);
    }

    fn read_module(&mut self, root: &Path, file: &str, module: ModulePath, items: Vec<Item>, folder: &Path) {
        self.modules.entry(module.clone()).or_default().file = file.to_owned();
        for item in items {
            let (name, attributes) = match &item {
                Item::Struct(item) => (Some(item.ident.to_string()), &item.attrs),
                Item::Enum(item) => (Some(item.ident.to_string()), &item.attrs),
                Item::Trait(item) => (Some(item.ident.to_string()), &item.attrs),
                Item::Fn(item) => (Some(item.sig.ident.to_string()), &item.attrs),
                Item::Const(item) => (Some(item.ident.to_string()), &item.attrs),
                Item::Static(item) => (Some(item.ident.to_string()), &item.attrs),
                Item::Type(item) => (Some(item.ident.to_string()), &item.attrs),
                Item::Union(item) => (Some(item.ident.to_string()), &item.attrs),
                Item::Macro(item) => (item.ident.as_ref().map(ToString::to_string), &item.attrs),
                Item::Mod(item) => (None, &item.attrs),
                Item::Use(item) => (None, &item.attrs),
                Item::Impl(item) => (None, &item.attrs),
                _ => continue,
            };
            if is_test(attributes) {
                continue;
            }
            if let Some(name) = name {
                self.modules.get_mut(&module).expect("just added").items.insert(name);
            }
            match item {
                Item::Mod(inner) => self.read_inner(root, file, &module, inner, folder),
                Item::Use(item) => {
                    let is_private = matches!(item.vis, Visibility::Inherited);
                    self.read_use(&module, &item.tree, is_private);
                }
                item => {
                    let mut paths = Paths { module: &module, references: &mut self.references };
                    paths.visit_item(&item);
                    if let Item::Impl(block) = item {
                        self.impls.push((module.clone(), block));
                    }
                }
            }
        }
    }

    fn read_inner(&mut self, root: &Path, file: &str, module: &[String], inner: ItemMod, folder: &Path) {
        let name = inner.ident.to_string();
        let mut path = module.to_vec();
        path.push(name.clone());
        if let Some((_, items)) = inner.content {
            return self.read_module(root, file, path, items, &folder.join(&name));
        }
        if folder.join(&name).join("mod.rs").exists() {
            self.read_file(root, "mod.rs", path, &folder.join(&name));
        } else if folder.join(format!("{name}.rs")).exists() {
            self.read_file(root, &format!("{name}.rs"), path, folder);
        }
    }

    fn read_use(&mut self, module: &ModulePath, tree: &UseTree, is_private: bool) {
        for (name, path) in leaves(tree, &[]) {
            if is_private {
                self.add_reference(module, path.clone(), "use");
            }
            let module = self.modules.get_mut(module).expect("known");
            match name {
                Some(name) => drop(module.imports.insert(name, path)),
                None => module.globs.push(path),
            }
        }
    }

    fn add_reference(&mut self, module: &[String], path: ModulePath, origin: &str) {
        let origin = format!("{origin} {}", path.join("::"));
        self.references.push(Reference { module: module.to_vec(), path, origin });
    }

    /// Resolves `path` in `module` to the defining module and the rest of the path, empty for the module itself.
    /// Returns `None` if another crate defines it.
    fn resolve(&self, module: &[String], path: &[String], depth: usize) -> Option<(ModulePath, ModulePath)> {
        if depth > 8 {
            return None;
        }
        let (first, mut rest) = path.split_first()?;
        let mut at = module.to_vec();
        match first.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                at.pop();
                while rest.first().is_some_and(|name| name == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            name => {
                let here = &self.modules[&at];
                let child = [&at[..], &[name.to_owned()]].concat();
                if !here.items.contains(name) && !here.imports.contains_key(name) && !self.modules.contains_key(&child)
                {
                    return None;
                }
                rest = path;
            }
        }
        while let Some((name, after)) = rest.split_first() {
            let child = [&at[..], std::slice::from_ref(name)].concat();
            let here = self.modules.get(&at)?;
            if self.modules.contains_key(&child) && !(after.is_empty() && here.items.contains(name)) {
                at = child;
                rest = after;
                continue;
            }
            if here.items.contains(name) {
                return Some((at, rest.to_vec()));
            }
            if let Some(target) = here.imports.get(name) {
                let target = [&target[..], after].concat();
                return self.resolve(&at, &target, depth + 1);
            }
            for glob in &here.globs {
                let target = [&glob[..], rest].concat();
                if let Some(found) = self.resolve(&at, &target, depth + 1)
                    && self.modules[&found.0].items.contains(found.1.first().unwrap_or(name))
                {
                    return Some(found);
                }
            }
            return Some((at, rest.to_vec()));
        }
        Some((at, Vec::new()))
    }

    /// Adds references to the inherent methods that a type calls on itself.
    fn add_method_references(&mut self) {
        let impls = std::mem::take(&mut self.impls);
        let owner = |tree: &Self, module: &ModulePath, block: &ItemImpl| {
            let syn::Type::Path(path) = &*block.self_ty else { return None };
            let path: ModulePath = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            let (at, rest) = tree.resolve(module, &path, 0)?;
            Some([&at[..], &rest[..1.min(rest.len())]].concat())
        };
        for (module, block) in impls.iter().filter(|(_, block)| block.trait_.is_none()) {
            let Some(of) = owner(self, module, block) else { continue };
            for item in &block.items {
                if let ImplItem::Fn(method) = item {
                    let file = self.modules[module].file.clone();
                    self.methods.insert((of.clone(), method.sig.ident.to_string()), file);
                }
            }
        }
        for (module, block) in &impls {
            let Some(of) = owner(self, module, block) else { continue };
            let mut calls = Calls::default();
            calls.visit_item_impl(block);
            for name in calls.0 {
                if self.methods.contains_key(&(of.clone(), name.clone())) {
                    let mut path = vec!["<method>".to_owned()];
                    path.extend(of.clone());
                    path.push(name.clone());
                    let origin = format!("method {}::{name}", of.last().expect("a type"));
                    self.references.push(Reference { module: module.clone(), path, origin });
                }
            }
        }
    }

    fn file_of(&self, reference: &Reference) -> Option<&str> {
        if let Some((mark, rest)) = reference.path.split_first()
            && mark == "<method>"
        {
            let (name, of) = rest.split_last()?;
            return self.methods.get(&(of.to_vec(), name.clone())).map(String::as_str);
        }
        let (at, rest) = self.resolve(&reference.module, &reference.path, 0)?;
        // A path of a single name in code is a variable with the name of a module.
        if rest.is_empty() && reference.path.len() == 1 && reference.origin.starts_with("path") {
            return None;
        }
        // `Type::method` refers to the method's file.
        if let [of, method, ..] = &rest[..] {
            let of = [&at[..], std::slice::from_ref(of)].concat();
            if let Some(file) = self.methods.get(&(of, method.clone())) {
                return Some(file);
            }
        }
        self.modules.get(&at).map(|module| module.file.as_str())
    }

    /// Returns the shortest dependency cycle of each file, as steps.
    fn cycles(&self) -> Vec<Vec<String>> {
        let mut edges: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
        for reference in &self.references {
            let from = self.modules[&reference.module].file.as_str();
            if let Some(to) = self.file_of(reference)
                && to != from
            {
                edges.entry(from).or_default().entry(to).or_insert(&reference.origin);
            }
        }
        let mut cycles = Vec::new();
        let mut seen: BTreeSet<BTreeSet<&str>> = BTreeSet::new();
        for start in edges.keys() {
            if let Some(path) = shortest_cycle(&edges, start)
                && seen.insert(path.iter().copied().collect())
            {
                let next = path.iter().cycle().skip(1);
                let steps = path.iter().zip(next);
                cycles.push(steps.map(|(a, b)| format!("{a} depends on {b} ({})", edges[a][b])).collect());
            }
        }
        cycles
    }
}

/// Returns the local names of a `use` item with their paths; the name is `None` for a glob import.
fn leaves(tree: &UseTree, prefix: &[String]) -> Vec<(Option<String>, ModulePath)> {
    let with = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(path) => leaves(&path.tree, &with(&path.ident)),
        UseTree::Group(group) => group.items.iter().flat_map(|tree| leaves(tree, prefix)).collect(),
        UseTree::Glob(_) => vec![(None, prefix.to_vec())],
        UseTree::Name(name) if name.ident == "self" => vec![(prefix.last().cloned(), prefix.to_vec())],
        UseTree::Name(name) => vec![(Some(name.ident.to_string()), with(&name.ident))],
        UseTree::Rename(rename) if rename.ident == "self" => {
            vec![(Some(rename.rename.to_string()), prefix.to_vec())]
        }
        UseTree::Rename(rename) => vec![(Some(rename.rename.to_string()), with(&rename.ident))],
    }
}

fn shortest_cycle<'a>(edges: &BTreeMap<&'a str, BTreeMap<&'a str, &'a str>>, start: &'a str) -> Option<Vec<&'a str>> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(at) = open.pop_front() {
        for next in edges.get(at).into_iter().flat_map(BTreeMap::keys) {
            if *next == start {
                let mut path = vec![at];
                while let Some(previous) = before.get(path[path.len() - 1]) {
                    path.push(previous);
                }
                path.reverse();
                return Some(path);
            }
            if *next != start && !before.contains_key(next) {
                before.insert(next, at);
                open.push_back(next);
            }
        }
    }
    None
}

/// Collects the paths in code.
struct Paths<'a> {
    module: &'a ModulePath,
    references: &'a mut Vec<Reference>,
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: ModulePath = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if path.leading_colon.is_none() {
            let origin = format!("path {}", names.join("::"));
            self.references.push(Reference { module: self.module.clone(), path: names, origin });
        }
        visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        for (_, path) in leaves(&item.tree, &[]) {
            let origin = format!("use {}", path.join("::"));
            self.references.push(Reference { module: self.module.clone(), path, origin });
        }
    }

    /// Reads the arguments of a macro if they are a list of expressions, as in `routes!`.
    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        if let Ok(given) = called.parse_body_with(Punctuated::<Expr, syn::Token![,]>::parse_terminated) {
            let mut inside = Paths { module: self.module, references: &mut *self.references };
            given.iter().for_each(|given| Paths::visit_expr(&mut inside, given));
        }
    }

    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}

    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}
}

/// Collects `self.method(…)` and `Self::method`.
#[derive(Default)]
struct Calls(BTreeSet<String>);

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        if matches!(&*call.receiver, Expr::Path(path) if path.path.is_ident("self")) {
            self.0.insert(call.method.to_string());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut names = path.segments.iter().map(|segment| segment.ident.to_string());
        if names.next().is_some_and(|name| name == "Self")
            && let Some(method) = names.next()
        {
            self.0.insert(method);
        }
        visit::visit_path(self, path);
    }
}
