//! Catalog entries. Packages and versions were verified in their registries.

use super::{CatalogEntry, EntryTransport, Runner, ValueKind, ValuePlace, ValueSpec};

const fn npm(package: &'static str, version: &'static str, executable: &'static str) -> EntryTransport {
    EntryTransport::Stdio { runner: Runner::Npx, package, version, executable }
}

/// Python packages whose program has the same name as the package.
const fn python(package: &'static str, version: &'static str) -> EntryTransport {
    EntryTransport::Stdio { runner: Runner::Uvx, package, version, executable: package }
}

const fn bearer_token(name: &'static str, description: &'static str, required: bool) -> ValueSpec {
    ValueSpec {
        name,
        description,
        kind: ValueKind::Secret,
        required,
        place: ValuePlace::Header { name: "Authorization", prefix: "Bearer " },
    }
}

const fn secret(name: &'static str, description: &'static str, variable: &'static str) -> ValueSpec {
    ValueSpec { name, description, kind: ValueKind::Secret, required: true, place: ValuePlace::Environment(variable) }
}

const fn flag(name: &'static str, description: &'static str, option: &'static str) -> ValueSpec {
    ValueSpec { name, description, kind: ValueKind::Flag, required: false, place: ValuePlace::Option(option) }
}

const REFERENCE_SERVERS: &str = "https://github.com/modelcontextprotocol/servers";

pub(super) const ENTRIES: &[CatalogEntry] = &[
    CatalogEntry {
        id: "filesystem",
        name: "Filesystem",
        description: "Reads, writes and searches files in the specified folders.",
        homepage: REFERENCE_SERVERS,
        transport: npm("@modelcontextprotocol/server-filesystem", "2026.8.31", "mcp-server-filesystem"),
        values: &[ValueSpec {
            name: "directories",
            description: "Folders that the server may use",
            kind: ValueKind::Paths,
            required: true,
            place: ValuePlace::Argument,
        }],
        needs_network: false,
    },
    CatalogEntry {
        id: "memory",
        name: "Memory",
        description: "Stores entities, relations and observations as a graph in a file.",
        homepage: REFERENCE_SERVERS,
        transport: npm("@modelcontextprotocol/server-memory", "2026.8.31", "mcp-server-memory"),
        values: &[ValueSpec {
            name: "memory_file",
            description: "File in which the graph is stored",
            kind: ValueKind::Path,
            required: false,
            place: ValuePlace::Environment("MEMORY_FILE_PATH"),
        }],
        needs_network: false,
    },
    CatalogEntry {
        id: "sequential-thinking",
        name: "Sequential Thinking",
        description: "Lets a model structure its reasoning in steps that can be revised and branched.",
        homepage: REFERENCE_SERVERS,
        transport: npm(
            "@modelcontextprotocol/server-sequential-thinking",
            "2026.8.31",
            "mcp-server-sequential-thinking",
        ),
        values: &[],
        needs_network: false,
    },
    CatalogEntry {
        id: "everything",
        name: "Everything",
        description: "Demonstrates all features of the protocol; useful for testing a connection.",
        homepage: REFERENCE_SERVERS,
        transport: npm("@modelcontextprotocol/server-everything", "2026.8.31", "mcp-server-everything"),
        values: &[],
        needs_network: false,
    },
    CatalogEntry {
        id: "fetch",
        name: "Fetch",
        description: "Fetches web pages and converts them to Markdown.",
        homepage: REFERENCE_SERVERS,
        transport: python("mcp-server-fetch", "2026.10.24"),
        values: &[flag("ignore_robots_txt", "Ignore robots.txt", "--ignore-robots-txt")],
        needs_network: true,
    },
    CatalogEntry {
        id: "git",
        name: "Git",
        description: "Reads, searches and modifies a Git repository.",
        homepage: REFERENCE_SERVERS,
        transport: python("mcp-server-git", "2026.10.19"),
        values: &[ValueSpec {
            name: "repository",
            description: "Folder of the repository",
            kind: ValueKind::Path,
            required: true,
            place: ValuePlace::Option("--repository"),
        }],
        needs_network: false,
    },
    CatalogEntry {
        id: "time",
        name: "Time",
        description: "Returns the time in any time zone and converts between time zones.",
        homepage: REFERENCE_SERVERS,
        transport: python("mcp-server-time", "2026.10.19"),
        values: &[ValueSpec {
            name: "local_timezone",
            description: "Local time zone, such as Europe/Berlin",
            kind: ValueKind::TimeZone,
            required: false,
            place: ValuePlace::Option("--local-timezone"),
        }],
        needs_network: false,
    },
    CatalogEntry {
        id: "sqlite",
        name: "SQLite",
        description: "Queries and modifies a SQLite database; no longer maintained by its authors.",
        homepage: "https://github.com/modelcontextprotocol/servers-archived",
        transport: python("mcp-server-sqlite", "2025.4.25"),
        values: &[ValueSpec {
            name: "database",
            description: "Database file",
            kind: ValueKind::Path,
            required: true,
            place: ValuePlace::Option("--db-path"),
        }],
        needs_network: false,
    },
    CatalogEntry {
        id: "github",
        name: "GitHub",
        description: "Works with repositories, issues and pull requests; operated by GitHub.",
        homepage: "https://github.com/github/github-mcp-server",
        transport: EntryTransport::Http { url: "https://api.githubcopilot.com/mcp/" },
        values: &[bearer_token("token", "Personal access token", true)],
        needs_network: true,
    },
    CatalogEntry {
        id: "playwright",
        name: "Playwright",
        description: "Controls a web browser through its accessibility tree.",
        homepage: "https://playwright.dev",
        transport: npm("@playwright/mcp", "0.0.83", "playwright-mcp"),
        values: &[
            flag("headless", "Run the browser without a window", "--headless"),
            flag("isolated", "Keep the browser profile in memory only", "--isolated"),
        ],
        needs_network: true,
    },
    CatalogEntry {
        id: "chrome-devtools",
        name: "Chrome DevTools",
        description: "Inspects and debugs pages in a Chrome browser.",
        homepage: "https://github.com/ChromeDevTools/chrome-devtools-mcp",
        transport: npm("chrome-devtools-mcp", "1.11.0", "chrome-devtools-mcp"),
        values: &[
            flag("headless", "Run the browser without a window", "--headless"),
            flag("isolated", "Use a temporary profile", "--isolated"),
        ],
        needs_network: true,
    },
    CatalogEntry {
        id: "context7",
        name: "Context7",
        description: "Finds current documentation and examples of libraries; operated by Upstash.",
        homepage: "https://github.com/upstash/context7",
        transport: EntryTransport::Http { url: "https://mcp.context7.com/mcp" },
        values: &[bearer_token("api_key", "API key for a higher request limit", false)],
        needs_network: true,
    },
    CatalogEntry {
        id: "notion",
        name: "Notion",
        description: "Reads and writes pages and databases of a Notion workspace.",
        homepage: "https://github.com/makenotion/notion-mcp-server",
        transport: npm("@notionhq/notion-mcp-server", "2.5.2", "notion-mcp-server"),
        values: &[secret("token", "Token of a Notion integration", "NOTION_TOKEN")],
        needs_network: true,
    },
    CatalogEntry {
        id: "tavily",
        name: "Tavily",
        description: "Searches the web and extracts the content of pages.",
        homepage: "https://github.com/tavily-ai/tavily-mcp",
        transport: npm("tavily-mcp", "0.2.22", "tavily-mcp"),
        values: &[secret("api_key", "Tavily API key", "TAVILY_API_KEY")],
        needs_network: true,
    },
    CatalogEntry {
        id: "duckduckgo",
        name: "DuckDuckGo",
        description: "Searches the web with DuckDuckGo, without an account.",
        homepage: "https://github.com/nickclyde/duckduckgo-mcp-server",
        transport: python("duckduckgo-mcp-server", "0.7.0"),
        values: &[],
        needs_network: true,
    },
    CatalogEntry {
        id: "arxiv",
        name: "arXiv",
        description: "Finds, downloads and reads papers from arXiv.",
        homepage: "https://github.com/blazickjp/arxiv-mcp-server",
        transport: python("arxiv-mcp-server", "0.8.2"),
        values: &[ValueSpec {
            name: "storage_path",
            description: "Folder for downloaded papers",
            kind: ValueKind::Path,
            required: false,
            place: ValuePlace::Option("--storage-path"),
        }],
        needs_network: true,
    },
];
