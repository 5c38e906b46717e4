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
        description: "Reads, writes and searches files in the folders that it is given.",
        homepage: REFERENCE_SERVERS,
        transport: npm("@modelcontextprotocol/server-filesystem", "2026.8.31", "mcp-server-filesystem"),
        values: &[ValueSpec {
            name: "directories",
            description: "The folders that the server may use",
            kind: ValueKind::Paths,
            required: true,
            place: ValuePlace::Argument,
        }],
        needs_network: false,
    },
    CatalogEntry {
        id: "memory",
        name: "Memory",
        description: "Remembers entities, relations and observations as a graph in a file.",
        homepage: REFERENCE_SERVERS,
        transport: npm("@modelcontextprotocol/server-memory", "2026.8.31", "mcp-server-memory"),
        values: &[ValueSpec {
            name: "memory_file",
            description: "The file that holds the graph",
            kind: ValueKind::Path,
            required: false,
            place: ValuePlace::Environment("MEMORY_FILE_PATH"),
        }],
        needs_network: false,
    },
    CatalogEntry {
        id: "sequential-thinking",
        name: "Sequential Thinking",
        description: "Lets a model lay out its reasoning in steps that it may revise and branch.",
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
        description: "Shows every feature of the protocol; good for trying a connection.",
        homepage: REFERENCE_SERVERS,
        transport: npm("@modelcontextprotocol/server-everything", "2026.8.31", "mcp-server-everything"),
        values: &[],
        needs_network: false,
    },
    CatalogEntry {
        id: "fetch",
        name: "Fetch",
        description: "Fetches web pages and turns them into Markdown.",
        homepage: REFERENCE_SERVERS,
        transport: python("mcp-server-fetch", "2026.10.24"),
        values: &[flag("ignore_robots_txt", "Fetch what robots.txt asks programs to leave", "--ignore-robots-txt")],
        needs_network: true,
    },
    CatalogEntry {
        id: "git",
        name: "Git",
        description: "Reads, searches and changes a Git repository.",
        homepage: REFERENCE_SERVERS,
        transport: python("mcp-server-git", "2026.10.19"),
        values: &[ValueSpec {
            name: "repository",
            description: "The repository's folder",
            kind: ValueKind::Path,
            required: true,
            place: ValuePlace::Option("--repository"),
        }],
        needs_network: false,
    },
    CatalogEntry {
        id: "time",
        name: "Time",
        description: "Tells the time in any time zone and converts between them.",
        homepage: REFERENCE_SERVERS,
        transport: python("mcp-server-time", "2026.10.19"),
        values: &[ValueSpec {
            name: "local_timezone",
            description: "The time zone that counts as local, such as Europe/Berlin",
            kind: ValueKind::TimeZone,
            required: false,
            place: ValuePlace::Option("--local-timezone"),
        }],
        needs_network: false,
    },
    CatalogEntry {
        id: "sqlite",
        name: "SQLite",
        description: "Queries and changes a SQLite database; its authors maintain it no longer.",
        homepage: "https://github.com/modelcontextprotocol/servers-archived",
        transport: python("mcp-server-sqlite", "2025.4.25"),
        values: &[ValueSpec {
            name: "database",
            description: "The database file",
            kind: ValueKind::Path,
            required: true,
            place: ValuePlace::Option("--db-path"),
        }],
        needs_network: false,
    },
    CatalogEntry {
        id: "github",
        name: "GitHub",
        description: "Works with repositories, issues and pull requests; run by GitHub.",
        homepage: "https://github.com/github/github-mcp-server",
        transport: EntryTransport::Http { url: "https://api.githubcopilot.com/mcp/" },
        values: &[bearer_token("token", "A personal access token", true)],
        needs_network: true,
    },
    CatalogEntry {
        id: "playwright",
        name: "Playwright",
        description: "Drives a web browser through its accessibility tree.",
        homepage: "https://playwright.dev",
        transport: npm("@playwright/mcp", "0.0.83", "playwright-mcp"),
        values: &[
            flag("headless", "Run the browser without a window", "--headless"),
            flag("isolated", "Keep the browser's profile in memory alone", "--isolated"),
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
            flag("isolated", "Use a profile that is removed afterwards", "--isolated"),
        ],
        needs_network: true,
    },
    CatalogEntry {
        id: "context7",
        name: "Context7",
        description: "Finds current documentation and examples of libraries; run by Upstash.",
        homepage: "https://github.com/upstash/context7",
        transport: EntryTransport::Http { url: "https://mcp.context7.com/mcp" },
        values: &[bearer_token("api_key", "An API key, for more requests than come free", false)],
        needs_network: true,
    },
    CatalogEntry {
        id: "notion",
        name: "Notion",
        description: "Reads and writes pages and databases of a Notion workspace.",
        homepage: "https://github.com/makenotion/notion-mcp-server",
        transport: npm("@notionhq/notion-mcp-server", "2.5.2", "notion-mcp-server"),
        values: &[secret("token", "The token of a Notion integration", "NOTION_TOKEN")],
        needs_network: true,
    },
    CatalogEntry {
        id: "tavily",
        name: "Tavily",
        description: "Searches the web and extracts what pages say.",
        homepage: "https://github.com/tavily-ai/tavily-mcp",
        transport: npm("tavily-mcp", "0.2.22", "tavily-mcp"),
        values: &[secret("api_key", "An API key of Tavily", "TAVILY_API_KEY")],
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
        description: "Finds, downloads and reads papers of arXiv.",
        homepage: "https://github.com/blazickjp/arxiv-mcp-server",
        transport: python("arxiv-mcp-server", "0.8.2"),
        values: &[ValueSpec {
            name: "storage_path",
            description: "The folder that downloaded papers go to",
            kind: ValueKind::Path,
            required: false,
            place: ValuePlace::Option("--storage-path"),
        }],
        needs_network: true,
    },
];
