//! Fetching from untrusted addresses: redirects, credentials, decompression bombs and slow responses, over real
//! sockets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentd_net::{
    FetchLimits, FetchRequest, GuardedClient, Lookup, LookupFuture, NetError, NetPolicy, PolicyHandle, Trust,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use url::Url;

/// Lookup that resolves every name to loopback, except for `inside.example`, a metadata service, and `flip.example`,
/// which becomes one after its first lookup.
#[derive(Default)]
struct Names(AtomicUsize);

impl Lookup for Names {
    fn lookup(&self, host: &str) -> LookupFuture {
        let is_inside =
            host == "inside.example" || (host == "flip.example" && self.0.fetch_add(1, Ordering::SeqCst) > 0);
        let address: IpAddr = if is_inside { "169.254.169.254" } else { "127.0.0.1" }.parse().unwrap();
        Box::pin(async move { Ok(vec![address]) })
    }
}

/// Server that answers each request by its path and passes the request to the test.
struct Server {
    port: u16,
    requests: mpsc::UnboundedReceiver<String>,
}

type Answer = Arc<dyn Fn(&str, u16) -> Vec<u8> + Send + Sync>;

impl Server {
    async fn start(answer: impl Fn(&str, u16) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, requests) = mpsc::unbounded_channel();
        let answer: Answer = Arc::new(answer);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (answer, sender) = (Arc::clone(&answer), sender.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while let Ok(byte) = stream.read_u8().await {
                        head.push(byte);
                        if head.ends_with(b"\r\n\r\n") {
                            let request = String::from_utf8_lossy(&head).into_owned();
                            let path = request.split(' ').nth(1).unwrap().to_owned();
                            let _ = sender.send(request);
                            let _ = stream.write_all(&answer(&path, port)).await;
                            if path.starts_with("/close") {
                                return;
                            }
                            head.clear();
                        }
                    }
                });
            }
        });
        Self { port, requests }
    }

    fn url(&self, host: &str, path: &str) -> Url {
        Url::parse(&format!("http://{host}:{}{path}", self.port)).unwrap()
    }

    fn seen(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.requests.try_recv().ok()).collect()
    }
}

fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn redirect(status: u16, location: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n").into_bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn encoded(encoding: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Client as for agents, with the test's names (and loopback, where its servers are) permitted.
fn client() -> GuardedClient {
    let allowed_hosts = vec!["127.0.0.0/8".parse().unwrap()];
    let policy = PolicyHandle::new(NetPolicy { allowed_hosts, ..NetPolicy::default() });
    GuardedClient::with_lookup(policy, Trust::Untrusted, Arc::new(Names::default()))
}

fn limits() -> FetchLimits {
    FetchLimits { body_bytes: 100_000, ..FetchLimits::default() }
}

async fn get(url: Url) -> Result<agentd_net::Fetched, NetError> {
    client().fetch(FetchRequest::get(url), limits()).await
}

#[tokio::test]
async fn redirects_are_checked_like_requests() {
    let mut server = Server::start(|path, port| match path {
        "/start" => redirect(302, &format!("http://second.example:{port}/next")),
        "/next" => redirect(301, "end"),
        "/end" => ok("here"),
        "/literal" => redirect(302, "http://169.254.169.254/latest/"),
        "/short" => redirect(302, "http://169.254.43518/"),
        "/scheme" => redirect(302, "file:///etc/passwd"),
        "/port" => redirect(302, "http://mail.example:25/"),
        "/name" => redirect(302, "http://inside.example/"),
        "/slashes" => redirect(302, "\\\\169.254.169.254\\latest"),
        "/userinfo" => redirect(302, "http://first.example@169.254.169.254/"),
        "/flip" => redirect(302, &format!("http://flip.example:{port}/close/again")),
        "/close/again" => redirect(302, &format!("http://flip.example:{port}/close/more")),
        other => panic!("{other}"),
    })
    .await;
    let fetched = get(server.url("first.example", "/start")).await.unwrap();
    assert_eq!(
        (fetched.url.as_str(), &fetched.body[..]),
        (server.url("second.example", "/end").as_str(), &b"here"[..])
    );
    server.seen();
    for path in ["/literal", "/short", "/scheme", "/port", "/name", "/slashes", "/userinfo"] {
        let error = get(server.url("first.example", path)).await.unwrap_err();
        assert!(error.is_refusal(), "{path}: {error:?}");
        assert_eq!(server.seen().len(), 1, "{path}");
    }
    let error = get(server.url("first.example", "/flip")).await.unwrap_err();
    assert!(matches!(error, NetError::Refused { .. }), "rebound between two hops: {error:?}");
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn number_of_redirects_is_limited() {
    let mut server = Server::start(|_, _| redirect(302, "/again")).await;
    let error = get(server.url("loop.example", "/")).await.unwrap_err();
    assert!(matches!(error, NetError::TooManyRedirects { limit: 5, .. }), "{error:?}");
    assert_eq!(server.seen().len(), 6);
}

#[tokio::test]
async fn redirect_without_valid_location_is_handled() {
    let server = Server::start(|path, _| match path {
        "/nowhere" => redirect(302, "http://[::1/"),
        _ => b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec(),
    })
    .await;
    let error = get(server.url("a.example", "/nowhere")).await.unwrap_err();
    assert!(matches!(error, NetError::Redirect { .. }), "{error:?}");
    assert_eq!(get(server.url("a.example", "/")).await.unwrap().status, 304);
}

#[tokio::test]
async fn credentials_are_sent_only_to_their_origin() {
    let mut server = Server::start(|path, port| match path {
        "/same" => redirect(302, "/out"),
        "/out" => redirect(302, &format!("http://user:planted@b.example:{port}/back")),
        "/back" => redirect(302, &format!("http://a.example:{port}/end")),
        _ => ok(""),
    })
    .await;
    let secret = HeaderValue::from_static("s3cret");
    let mut request = FetchRequest::get(server.url("a.example", "/same"));
    request.url.set_username("me").unwrap();
    for name in ["authorization", "x-api-key", "cookie", "x-configured"] {
        request.headers.insert(HeaderName::from_static(name), secret.clone());
    }
    request.headers.insert("accept", HeaderValue::from_static("text/html"));
    client().fetch(request, limits()).await.unwrap();
    let seen = server.seen();
    assert_eq!(seen.len(), 4);
    for (hop, request) in seen.iter().enumerate() {
        let count = request.matches("s3cret").count();
        assert_eq!(count, if hop < 2 { 4 } else { 0 }, "hop {hop}: {request}");
        assert_eq!(request.contains("authorization"), hop < 2, "not even one that the redirect planted: {request}");
        assert!(request.contains("accept: text/html") && !request.contains("referer"), "{request}");
    }
}

#[tokio::test]
async fn redirects_rewrite_methods_and_bodies() {
    let mut server = Server::start(|path, port| match path {
        "/303" => redirect(303, "/end"),
        "/302" => redirect(302, "/end"),
        "/307" => redirect(307, "/end"),
        "/away" => redirect(307, &format!("http://b.example:{port}/end")),
        _ => b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
    })
    .await;
    let post = |path: &str| FetchRequest {
        method: Method::POST,
        body: Bytes::from_static(b"\r\n\r\n"),
        headers: HeaderMap::from_iter([(HeaderName::from_static("content-type"), HeaderValue::from_static("a/b"))]),
        ..FetchRequest::get(server.url("a.example", path))
    };
    let (see_other, found, temporary, away) = (post("/303"), post("/302"), post("/307"), post("/away"));
    for (request, method) in [(see_other, "GET"), (found, "GET"), (temporary, "POST")] {
        client().fetch(request, limits()).await.unwrap();
        let last = server.seen().into_iter().rfind(|request| request.contains("/end")).unwrap();
        assert!(last.starts_with(method), "{last}");
        assert_eq!(last.contains("content-type"), method == "POST", "{last}");
    }
    let error = client().fetch(away, limits()).await.unwrap_err();
    assert!(matches!(error, NetError::Redirect { .. }), "{error:?}");
    assert!(!server.seen().iter().any(|request| request.contains("b.example")));
}

#[tokio::test]
async fn forbidden_headers_are_rejected_before_sending() {
    let mut server = Server::start(|_, _| ok("")).await;
    for name in ["host", "content-length", "transfer-encoding", "connection", "proxy-authorization", "upgrade"] {
        let mut request = FetchRequest::get(server.url("a.example", "/"));
        request.headers.insert(HeaderName::from_static(name), HeaderValue::from_static("1"));
        let error = client().fetch(request.clone(), limits()).await.unwrap_err();
        assert!(matches!(error, NetError::Request { .. }), "{name}: {error:?}");
        let error = client().request(Method::GET, request.url).unwrap().headers(request.headers).send().await;
        assert!(matches!(error, Err(NetError::Request { .. })), "{name}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn bodies_are_decoded_and_truncated() {
    let server = Server::start(|path, _| match path {
        "/plain" => ok(&"x".repeat(100_001)),
        "/exact" => ok(&"x".repeat(100_000)),
        "/gzip" => encoded("gzip", &gzip(b"hello")),
        "/two-members" => encoded("x-gzip", &[gzip(b"hel"), gzip(b"lo")].concat()),
        "/bomb" => encoded("gzip", &gzip(&vec![0; 50_000_000])),
        "/bomb-in-bomb" => encoded("gzip, gzip", &gzip(&gzip(&vec![0; 50_000_000]))),
        "/brotli" => encoded("br", b"\x0b\x02\x80hello\x03"),
        "/lie" => encoded("gzip", b"this is not gzip"),
        "/short" => encoded("gzip", &gzip(b"hello")[..12]),
        "/head" => encoded("gzip", b""),
        other => panic!("{other}"),
    })
    .await;
    let body = |path: &'static str| get(server.url("a.example", path));
    for (path, length, is_truncated) in
        [("/plain", 100_000, true), ("/exact", 100_000, false), ("/bomb", 100_000, true), ("/gzip", 5, false)]
    {
        let fetched = body(path).await.unwrap();
        assert_eq!((fetched.body.len(), fetched.is_truncated), (length, is_truncated), "{path}");
        assert!(fetched.headers.get("content-encoding").is_none());
    }
    assert_eq!(&body("/two-members").await.unwrap().body[..], b"hello");
    assert!(body("/head").await.unwrap().body.is_empty());
    for path in ["/brotli", "/bomb-in-bomb"] {
        assert!(matches!(body(path).await, Err(NetError::Encoding { .. })), "{path}");
    }
    for path in ["/lie", "/short"] {
        assert!(matches!(body(path).await, Err(NetError::Transport { .. })), "{path}");
    }
}

#[tokio::test]
async fn interrupted_connection_is_an_error() {
    let server = Server::start(|_, _| b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_vec()).await;
    let error = get(server.url("a.example", "/close")).await.unwrap_err();
    assert!(matches!(error, NetError::Transport { .. }), "{error:?}");
}

#[tokio::test]
async fn slow_silent_and_endless_responses_time_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut head = vec![0; 1024];
                let read = stream.read(&mut head).await.unwrap();
                let request = String::from_utf8_lossy(&head[..read]).into_owned();
                let (opening, piece): (&[u8], Vec<u8>) = if request.starts_with("GET /drip") {
                    (b"HTTP/1.1 200 OK\r\n\r\n", b"x".to_vec())
                } else if request.starts_with("GET /head") {
                    (b"HTTP/1.1 200 OK\r\n", [b"x-huge: ".as_slice(), &[b'x'; 9000], b"\r\n"].concat())
                } else if request.starts_with("GET /line") {
                    (b"HTTP/1.1 200 OK\r\nx-endless: ", vec![b'x'; 9000])
                } else {
                    (b"", Vec::new())
                };
                stream.write_all(opening).await.unwrap();
                loop {
                    if piece.len() < 2 {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    if stream.write_all(&piece).await.is_err() || piece.is_empty() && stream.read_u8().await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let bounds = FetchLimits { total_timeout: Duration::from_millis(300), ..limits() };
    for path in ["/drip", "/silence"] {
        let url = Url::parse(&format!("http://a.example:{port}{path}")).unwrap();
        let error = client().fetch(FetchRequest::get(url), bounds).await.unwrap_err();
        assert!(matches!(error, NetError::Timeout { .. }), "{path}: {error:?}");
    }
    for path in ["/head", "/line"] {
        let url = Url::parse(&format!("http://a.example:{port}{path}")).unwrap();
        let error = client().fetch(FetchRequest::get(url), limits()).await.unwrap_err();
        assert!(matches!(error, NetError::Transport { .. }), "{path}: {error:?}");
    }
}

#[tokio::test]
async fn errors_contain_no_path_and_no_secret() {
    let server = Server::start(|_, _| redirect(302, "http://169.254.169.254/inner-path?key=abc")).await;
    let error = get(server.url("a.example", "/outer-path?token=xyz")).await.unwrap_err();
    let text = format!("{error} {error:?}");
    for hidden in ["inner-path", "abc", "outer-path", "xyz"] {
        assert!(!text.contains(hidden), "{text}");
    }
}

#[tokio::test]
async fn opened_response_is_streamed_and_drops_credentials_on_redirect() {
    let mut server = Server::start(|path, port| match path {
        "/away" => redirect(302, &format!("http://other.example:{port}/file")),
        "/packed" => encoded("gzip", &gzip(b"packed")),
        "/short" | "/close/short" => b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nfewer".to_vec(),
        _ => ok(&"x".repeat(200_000)),
    })
    .await;
    let refusing = GuardedClient::with_lookup(PolicyHandle::default(), Trust::Untrusted, Arc::new(Names::default()));
    let request = |path: &str| {
        let mut request = FetchRequest::get(server.url("first.example", path));
        request.headers.insert("authorization", HeaderValue::from_static("Bearer t0ken"));
        request
    };
    let (whole, away) = (request("/file"), request("/away"));
    let (packed, short) = (request("/packed"), request("/close/short"));
    let mut opened = client().open(&refusing, whole, limits()).await.unwrap();
    let mut length = 0;
    while let Some(piece) = opened.chunk().await.unwrap() {
        length += piece.len();
    }
    assert_eq!(length, 200_000, "the caller counts");
    server.seen();
    // The other client decides which origins are permitted.
    let refused = client().open(&refusing, away.clone(), limits()).await;
    assert!(matches!(refused, Err(NetError::Refused { .. })), "{refused:?}");
    assert_eq!(server.seen().len(), 1);
    let opened = client().open(&client(), away, limits()).await.unwrap();
    assert_eq!(opened.url.host_str(), Some("other.example"));
    let seen = server.seen();
    assert!(seen[0].contains("t0ken") && !seen[1].contains("t0ken"), "{seen:?}");
    assert!(matches!(client().open(&refusing, packed, limits()).await, Err(NetError::Encoding { .. })));
    let mut opened = client().open(&refusing, short, limits()).await.unwrap();
    let end = loop {
        match opened.chunk().await {
            Ok(Some(_)) => {}
            end => break end,
        }
    };
    assert!(matches!(end, Err(NetError::Transport { .. })), "an incomplete body is an error: {end:?}");
}
