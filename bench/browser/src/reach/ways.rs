//! Techniques by which a page may try to reach an address, and spellings of addresses.

/// Technique of an attempt.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    pub name: &'static str,
    pub start: Start,
    /// Selector or action to click afterwards.
    pub clicks: bool,
    /// Whether the page is left afterwards.
    pub leaves: bool,
}

#[derive(Debug, Clone, Copy)]
pub enum Start {
    /// Page of a public site. `{at}` is replaced by the forbidden host and port, `{file}` by an address of the public
    /// site that returns the type, body and header that follow it.
    Page(&'static str),
    /// Address to navigate to.
    Goto(&'static str),
}

const fn page(name: &'static str, html: &'static str) -> Way {
    Way { name, start: Start::Page(html), clicks: false, leaves: false }
}

const fn clicked(name: &'static str, html: &'static str) -> Way {
    Way { name, start: Start::Page(html), clicks: true, leaves: false }
}

const fn left(name: &'static str, html: &'static str) -> Way {
    Way { name, start: Start::Page(html), clicks: false, leaves: true }
}

const fn goto(name: &'static str, url: &'static str) -> Way {
    Way { name, start: Start::Goto(url), clicks: false, leaves: false }
}

pub const WAYS: &[Way] = &[
    page("image", "<img src=//{at}/>"),
    page("image of a set", "<img srcset='//{at}/ 1x'>"),
    page("image of an input", "<input type=image src=//{at}/>"),
    page("image of SVG", "<svg><image href='http://{at}/' width=9 height=9 /></svg>"),
    page("script", "<script src=//{at}/></script>"),
    page("script that is written", "<script>document.write('<script src=//{at}/><\\/script>')</script>"),
    page("module", "<script type=module>import('http://{at}/')</script>"),
    page(
        "module by an import map",
        "<script type=importmap>{\"imports\":{\"x\":\"http://{at}/\"}}</script><script type=module>import 'x'</script>",
    ),
    page("style sheet", "<link rel=stylesheet href=//{at}/>"),
    page("import of a style sheet", "<style>@import 'http://{at}/';</style>"),
    page("background", "<p style=\"background:url('http://{at}/')\">x</p>"),
    page("cursor", "<body style=\"cursor:url('http://{at}/'),auto\">x"),
    page("font", "<style>@font-face{font-family:f;src:url('http://{at}/')}</style><p style=font-family:f>x</p>"),
    page("frame", "<iframe src=//{at}/></iframe>"),
    page("frame in a sandbox", "<iframe sandbox=allow-scripts src=//{at}/></iframe>"),
    page("frame with a document", "<iframe srcdoc='<img src=http://{at}/>'></iframe>"),
    page("frame of data:", "<iframe src='data:text/html,<img src=http://{at}/>'></iframe>"),
    page(
        "frame of blob:",
        "<iframe id=f></iframe><script>f.src = URL.createObjectURL(new Blob(['<img src=http://{at}/>'], {type: 'text/html'}))</script>",
    ),
    page(
        "script in a frame of data:",
        "<iframe src=\"data:text/html,<script>fetch('http://{at}/')</script>\"></iframe>",
    ),
    page("object", "<object data=//{at}/></object>"),
    page("embed", "<embed src=//{at}/ type=image/png>"),
    page("video", "<video src=//{at}/></video>"),
    page("poster of a video", "<video poster=//{at}/></video>"),
    page("audio", "<audio src=//{at}/ autoplay></audio>"),
    page("icon", "<link rel=icon href=//{at}/>"),
    page("manifest", "<link rel=manifest href=//{at}/>"),
    page("preload", "<link rel=preload as=image href=//{at}/>"),
    page(
        "preload by a header",
        "<iframe src=\"{file}text/html|x|Link|<http://{at}/>; rel=preload; as=image\"></iframe>",
    ),
    page("prefetch", "<link rel=prefetch href=//{at}/>"),
    page("module preload", "<link rel=modulepreload href=//{at}/>"),
    page("preconnect", "<link rel=preconnect href=//{at}/>"),
    page("lookup ahead", "<link rel=dns-prefetch href=//{at}/><a href=//{at}/>x</a>"),
    page(
        "prerender",
        "<script type=speculationrules>{\"prerender\":[{\"urls\":[\"http://{at}/\"],\"eagerness\":\"immediate\"}]}</script>",
    ),
    page(
        "prefetch by rules",
        "<script type=speculationrules>{\"prefetch\":[{\"urls\":[\"http://{at}/\"],\"eagerness\":\"immediate\"}]}</script>",
    ),
    page("fetch", "<script>fetch('http://{at}/')</script>"),
    page("fetch without CORS", "<script>fetch('http://{at}/', {method: 'POST', mode: 'no-cors', body: 'x'})</script>"),
    left(
        "fetch that outlives the page",
        "<script>onpagehide = () => fetch('http://{at}/', {keepalive: true, mode: 'no-cors'})</script>",
    ),
    left("beacon", "<script>onpagehide = () => navigator.sendBeacon('http://{at}/', 'x')</script>"),
    page(
        "request of a script",
        "<script>const r = new XMLHttpRequest(); r.open('GET', 'http://{at}/'); r.send()</script>",
    ),
    page(
        "request that blocks",
        "<script>const r = new XMLHttpRequest(); r.open('GET', 'http://{at}/', false); r.send()</script>",
    ),
    page("event source", "<script>new EventSource('http://{at}/')</script>"),
    page("socket", "<script>new WebSocket('ws://{at}/')</script>"),
    page("socket with TLS", "<script>new WebSocket('wss://{at}/')</script>"),
    page("TLS", "<img src=https://{at}/>"),
    page("worker", "<script>new Worker(URL.createObjectURL(new Blob([\"fetch('http://{at}/')\"])))</script>"),
    page(
        "script of a worker",
        "<script>new Worker(URL.createObjectURL(new Blob([\"importScripts('http://{at}/')\"])))</script>",
    ),
    page(
        "socket of a worker",
        "<script>new Worker(URL.createObjectURL(new Blob([\"new WebSocket('ws://{at}/')\"])))</script>",
    ),
    page("shared worker", "<script>new SharedWorker(\"data:text/javascript,fetch('http://{at}/')\")</script>"),
    page(
        "service worker",
        "<script>navigator.serviceWorker?.register(\"{file}text/javascript|fetch('http://{at}/')\")</script>",
    ),
    page(
        "STUN",
        "<script>const c = new RTCPeerConnection({iceServers: [{urls: 'stun:{at}'}]}); c.createDataChannel('x'); c.createOffer().then(o => c.setLocalDescription(o))</script>",
    ),
    page(
        "TURN over TCP",
        "<script>const c = new RTCPeerConnection({iceServers: [{urls: 'turn:{at}?transport=tcp', username: 'u', credential: 'p'}]}); c.createDataChannel('x'); c.createOffer().then(o => c.setLocalDescription(o))</script>",
    ),
    page("WebTransport", "<script>new WebTransport('https://{at}/')</script>"),
    page("another service by a header", "<img src=\"{file}image/png|x|Alt-Svc|h3='{at}', h2='{at}'\">"),
    page(
        "report of a policy",
        "<iframe src=\"{file}text/html|<script>x</script>|Content-Security-Policy|script-src 'none'; report-uri http://{at}/\"></iframe>",
    ),
    page("redirect of an image", "<img src=\"{file}text/html|302|Location|http://{at}/\">"),
    page("redirect of a frame", "<iframe src=\"{file}text/html|302|Location|http://{at}/\"></iframe>"),
    page(
        "redirect of a request",
        "<script>fetch(\"{file}text/html|302|Location|http://{at}/\", {mode: 'no-cors'})</script>",
    ),
    page("redirect of a page", "<script>location = \"{file}text/html|302|Location|http://{at}/\"</script>"),
    page("refresh of a page", "<meta http-equiv=refresh content='0;url=http://{at}/'>"),
    page("refresh by a header", "<iframe src=\"{file}text/html|x|Refresh|0;url=http://{at}/\"></iframe>"),
    page("navigation by a script", "<script>location = 'http://{at}/'</script>"),
    page("form", "<form action=//{at}/></form><script>document.forms[0].submit()</script>"),
    page("form that posts", "<form method=post action=//{at}/></form><script>document.forms[0].submit()</script>"),
    clicked("new window", "<button onclick=\"open('http://{at}/')\">x</button>"),
    clicked("link to a new tab", "<a href=//{at}/ target=_blank>x</a>"),
    clicked("ping of a link", "<a href='#x' ping=//{at}/>x</a>"),
    clicked("download", "<a href=//{at}/ download>x</a>"),
    clicked(
        "script in a new window",
        "<button onclick=\"open('about:blank').eval(`fetch('http://{at}/')`)\">x</button>",
    ),
    clicked("source of a page in a new window", "<button onclick=\"open('view-source:http://{at}/')\">x</button>"),
    page(
        "style sheet of XML",
        "<iframe src=\"{file}text/xml|<?xml-stylesheet href='http://{at}/' type='text/xsl'?><a/>\"></iframe>",
    ),
    page(
        "entity of XML",
        "<iframe src=\"{file}text/xml|<!DOCTYPE a [<!ENTITY b SYSTEM 'http://{at}/'>]><a>%26b;</a>\"></iframe>",
    ),
    page("file: in a frame", "<iframe src='file://{at}/etc/passwd'></iframe><img src=file:///etc/hostname>"),
    page("FTP", "<iframe src='ftp://{at}/'></iframe>"),
    goto("address that is gone to", "http://{at}/"),
    goto("address with TLS", "https://{at}/"),
    goto("document of data:", "data:text/html,<img src=http://{at}/><script>fetch('http://{at}/')</script>"),
    goto("source of a page", "view-source:http://{at}/"),
    goto("file:", "file:///etc/passwd"),
    goto("page of the browser", "chrome://net-export/"),
    goto("script as an address", "javascript:fetch('http://{at}/')"),
];

/// Hosts that a page must not reach; the canary's port is appended.
pub const HOSTS: &[&str] = &[
    "127.0.0.1",
    "127.1",
    "127.8.8.8",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "0x7f.1",
    "127.0.0.1.",
    "%31%32%37.0.0.1",
    "１２７.０.０.１",
    "127。0。0。1",
    "0.0.0.0",
    "0",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "site.localhost",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "[fd00::1]",
    "169.254.1.1",
    "[fe80::1]",
    "169.254.169.254",
    "2852039166",
    "[fd00:ec2::254]",
    "[::ffff:a9fe:a9fe]",
    "metadata.google.internal",
    "metadata.example",
    "loopback.example",
    "loopback6.example",
    "inside.example",
    "mixed.example",
    "rebinding.example",
    "192.0.2.1@127.0.0.1",
    "224.0.0.1",
    "255.255.255.255",
];
