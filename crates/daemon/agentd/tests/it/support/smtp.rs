//! A scripted SMTP server on loopback that stores received messages.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub const USERNAME: &str = "agentd@example.org";
pub const PASSWORD: &str = "mail-password-4711";

/// Encryption of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    None,
    Starttls,
    /// Offers STARTTLS and injects a reply after it in the same plain-text segment.
    StarttlsInjecting,
    Implicit,
}

/// Scripted behaviour of one session; the default is `Well`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behaviour {
    Well,
    /// Sends nothing, not even a greeting.
    Hang,
    /// Sends an endless greeting one byte at a time.
    Drip,
    /// Sends endless data.
    Flood,
    NoSmtp,
    /// Answers the command of this name with a reply of 36,000 lines.
    LongReply(&'static str),
    /// Reply to RCPT.
    Recipient(&'static str),
    /// Reply to the end of the data; the message is not stored.
    Data(&'static str),
    /// Rejects every login and repeats the credentials.
    EchoLogin,
    /// Closes the connection after this number of message bytes.
    DropInData(usize),
    /// Stores the message and closes the connection without a reply.
    DropAfterData,
    /// Stores the message and never replies.
    HangAfterData,
}

/// A message received completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    pub from: String,
    pub to: String,
    pub text: String,
    pub is_protected: bool,
    pub login: Option<(String, String)>,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        let prefix = format!("{name}: ");
        self.text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default()
    }
}

#[derive(Default)]
struct Shared {
    script: Mutex<VecDeque<Behaviour>>,
    received: watch::Sender<Vec<Received>>,
    sessions: watch::Sender<usize>,
}

pub struct SmtpServer {
    pub address: SocketAddr,
    /// Self-signed certificate (DER) for `localhost`.
    pub certificate: Vec<u8>,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

impl SmtpServer {
    pub async fn start(protection: Protection, mechanisms: &'static str) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .expect("a certificate with its key");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared: Arc<Shared> = Arc::default();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let task = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let (shared, acceptor) = (Arc::clone(&shared), acceptor.clone());
                    tokio::spawn(async move {
                        let behaviour = shared.script.lock().unwrap().pop_front().unwrap_or(Behaviour::Well);
                        shared.sessions.send_modify(|sessions| *sessions += 1);
                        // Errors of disconnected clients are ignored.
                        let _ = serve(stream, protection, &acceptor, mechanisms, &behaviour, &shared).await;
                    });
                }
            }
        });
        Self { address, certificate: certificate.to_vec(), shared, task }
    }

    /// Starts a server without encryption that supports PLAIN and LOGIN.
    pub async fn plain() -> Self {
        Self::start(Protection::None, "PLAIN LOGIN").await
    }

    /// Adds behaviours for the next sessions.
    pub fn then(&self, behaviours: impl IntoIterator<Item = Behaviour>) {
        self.shared.script.lock().unwrap().extend(behaviours);
    }

    pub fn received(&self) -> Vec<Received> {
        self.shared.received.borrow().clone()
    }

    /// Number of accepted connections.
    pub fn sessions(&self) -> usize {
        *self.shared.sessions.borrow()
    }

    /// Waits until `count` messages have been received completely.
    pub async fn wait_for(&self, count: usize) {
        let mut received = self.shared.received.subscribe();
        let arrived = received.wait_for(|received| received.len() >= count);
        tokio::time::timeout(Duration::from_secs(60), arrived)
            .await
            .expect("the mail arrives")
            .expect("the server runs");
    }

    pub async fn wait_for_sessions(&self, count: usize) {
        let mut sessions = self.shared.sessions.subscribe();
        let begun = sessions.wait_for(|sessions| *sessions >= count);
        tokio::time::timeout(Duration::from_secs(60), begun).await.expect("a connection").expect("the server runs");
    }
}

impl Drop for SmtpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    protection: Protection,
    acceptor: &TlsAcceptor,
    mechanisms: &str,
    behaviour: &Behaviour,
    shared: &Shared,
) -> std::io::Result<()> {
    match behaviour {
        Behaviour::Hang => {
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await?;
            return Ok(());
        }
        Behaviour::Drip => loop {
            stream.write_all(b"2").await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        },
        Behaviour::Flood => loop {
            stream.write_all(&[b'2'; 4096]).await?;
        },
        Behaviour::NoSmtp => {
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await?;
            return Ok(());
        }
        _ => {}
    }
    match protection {
        Protection::None => {
            stream.write_all(b"220 fake ESMTP\r\n").await?;
            Session::new(stream, false, None, mechanisms, behaviour, shared).run().await.map(|_| ())
        }
        Protection::Implicit => {
            let mut protected = acceptor.accept(stream).await?;
            protected.write_all(b"220 fake ESMTP\r\n").await?;
            Session::new(protected, true, None, mechanisms, behaviour, shared).run().await.map(|_| ())
        }
        Protection::Starttls | Protection::StarttlsInjecting => {
            stream.write_all(b"220 fake ESMTP\r\n").await?;
            let mut session = Session::new(stream, false, Some(protection), mechanisms, behaviour, shared);
            if session.run().await? {
                let protected = acceptor.accept(session.stream.into_inner()).await?;
                Session::new(protected, true, None, mechanisms, behaviour, shared).run().await?;
            }
            Ok(())
        }
    }
}

struct Session<'a, S> {
    stream: BufReader<S>,
    is_protected: bool,
    offers: Option<Protection>,
    mechanisms: &'a str,
    behaviour: &'a Behaviour,
    shared: &'a Shared,
    login: Option<(String, String)>,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Session<'a, S> {
    fn new(
        stream: S,
        is_protected: bool,
        offers: Option<Protection>,
        mechanisms: &'a str,
        behaviour: &'a Behaviour,
        shared: &'a Shared,
    ) -> Self {
        Self { stream: BufReader::new(stream), is_protected, offers, mechanisms, behaviour, shared, login: None }
    }

    async fn say(&mut self, text: &str) -> std::io::Result<()> {
        self.stream.get_mut().write_all(text.as_bytes()).await?;
        self.stream.get_mut().flush().await
    }

    async fn line(&mut self) -> std::io::Result<Option<String>> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).await?;
        Ok((read > 0).then(|| line.trim_end().to_owned()))
    }

    fn decode(text: &str) -> String {
        String::from_utf8(BASE64.decode(text.trim()).unwrap_or_default()).unwrap_or_default()
    }

    /// Returns whether the client requested STARTTLS.
    async fn run(&mut self) -> std::io::Result<bool> {
        let (mut from, mut to) = (String::new(), String::new());
        while let Some(line) = self.line().await? {
            let upper = line.to_ascii_uppercase();
            if let Behaviour::LongReply(command) = self.behaviour
                && upper.starts_with(*command)
            {
                self.say(&format!("{}250 x\r\n", "250-x\r\n".repeat(36_000))).await?;
                continue;
            }
            if upper.starts_with("EHLO") {
                let mut offer = String::from("250-fake greets you\r\n250-8BITMIME\r\n");
                match self.offers {
                    Some(_) => offer.push_str("250-STARTTLS\r\n"),
                    None if self.mechanisms.is_empty() => {}
                    None => offer.push_str(&format!("250-AUTH {}\r\n", self.mechanisms)),
                }
                self.say(&format!("{offer}250 SIZE 1000000\r\n")).await?;
            } else if upper == "STARTTLS" {
                let injected = match self.offers {
                    Some(Protection::StarttlsInjecting) => "250-injected\r\n250 AUTH PLAIN\r\n",
                    _ => "",
                };
                self.say(&format!("220 go ahead\r\n{injected}")).await?;
                return Ok(true);
            } else if let Some(given) = line.strip_prefix("AUTH PLAIN ") {
                let parts: Vec<String> = Self::decode(given).split('\0').map(str::to_owned).collect();
                let credentials = (parts[1].clone(), parts[2].clone());
                self.check_login(credentials, given).await?;
            } else if upper == "AUTH LOGIN" {
                self.say("334 VXNlcm5hbWU6\r\n").await?;
                let username = self.line().await?.unwrap_or_default();
                self.say("334 UGFzc3dvcmQ6\r\n").await?;
                let password = self.line().await?.unwrap_or_default();
                self.check_login((Self::decode(&username), Self::decode(&password)), &password).await?;
            } else if let Some(address) = line.strip_prefix("MAIL FROM:") {
                from = address.trim_matches(['<', '>']).to_owned();
                self.say("250 2.1.0 ok\r\n").await?;
            } else if let Some(address) = line.strip_prefix("RCPT TO:") {
                to = address.trim_matches(['<', '>']).to_owned();
                match self.behaviour {
                    Behaviour::Recipient(reply) => self.say(&format!("{reply}\r\n")).await?,
                    _ => self.say("250 2.1.5 ok\r\n").await?,
                }
            } else if upper == "DATA" {
                self.say("354 go on\r\n").await?;
                if !self.take(&from, &to).await? {
                    return Ok(false);
                }
            } else if upper == "QUIT" {
                self.say("221 bye\r\n").await?;
                return Ok(false);
            } else {
                self.say("502 unknown\r\n").await?;
            }
        }
        Ok(false)
    }

    async fn check_login(&mut self, credentials: (String, String), raw: &str) -> std::io::Result<()> {
        if *self.behaviour == Behaviour::EchoLogin {
            let (username, password) = credentials;
            return self.say(&format!("535 5.7.8 no: {raw} {username} {password}\r\n")).await;
        }
        if (credentials.0.as_str(), credentials.1.as_str()) != (USERNAME, PASSWORD) {
            return self.say("535 5.7.8 authentication failed\r\n").await;
        }
        self.login = Some(credentials);
        self.say("235 2.7.0 welcome\r\n").await
    }

    /// Returns whether the session continues.
    async fn take(&mut self, from: &str, to: &str) -> std::io::Result<bool> {
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n.\r\n") {
            if let Behaviour::DropInData(bytes) = self.behaviour
                && text.len() >= *bytes
            {
                return Ok(false);
            }
            match self.stream.read_u8().await {
                Ok(byte) => text.push(byte),
                Err(_) => return Ok(false),
            }
        }
        if let Behaviour::Data(reply) = self.behaviour {
            self.say(&format!("{reply}\r\n")).await?;
            return Ok(true);
        }
        let received = Received {
            from: from.to_owned(),
            to: to.to_owned(),
            text: String::from_utf8(text).expect("text"),
            is_protected: self.is_protected,
            login: self.login.clone(),
        };
        self.shared.received.send_modify(|all| all.push(received));
        match self.behaviour {
            Behaviour::DropAfterData => Ok(false),
            Behaviour::HangAfterData => {
                let mut rest = Vec::new();
                self.stream.read_to_end(&mut rest).await?;
                Ok(false)
            }
            _ => self.say("250 2.0.0 queued\r\n").await.map(|()| true),
        }
    }
}
