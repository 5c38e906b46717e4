//! SMTP session. Each step is bounded by the deadline.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use agentd_base::{Redactor, Secret, visible};
use agentd_core::settings::EmailTls;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::error::EmailError;
use super::message::EncodedMail;
use super::stream::{BoundedStream, MAX_REPLY_BYTES, ReplyTooLong};
use super::tls::Tls;

const GREETING: &str = "during the greeting";
const TLS_HANDSHAKE: &str = "during the TLS handshake";
const LOGIN: &str = "during login";
const ENVELOPE: &str = "while sending the envelope";
const MESSAGE: &str = "while sending the message";
/// Problem text of an overlong reply.
const TOO_LONG: &str = "the reply is too long";
/// Maximum length of a reply quoted in an error, in characters.
const MAX_SHOWN_CHARACTERS: usize = 200;
/// Timeout of the QUIT command, which is optional.
const QUIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A mail server with its connection settings.
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: EmailTls,
    /// User name and password, if the server requires authentication.
    pub(super) login: Option<(String, Secret)>,
    /// Address of the sender.
    pub(super) from: String,
}

impl Server {
    fn name(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    fn timeout(&self, during: &'static str) -> EmailError {
        EmailError::Timeout { server: self.name(), during }
    }

    fn lost(&self, during: &'static str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> EmailError {
        EmailError::Lost { server: self.name(), during, source: error.into() }
    }

    fn protocol(&self, during: &'static str, problem: impl Into<String>) -> EmailError {
        EmailError::Protocol { server: self.name(), during, problem: problem.into() }
    }

    /// Converts a failure that is not a rejection of a specific command.
    fn failure(&self, during: &'static str, error: SmtpError) -> EmailError {
        if let Some(code) = error.status() {
            let reply = self.sanitize_reply(&reply_text(&error));
            return self.protocol(during, format!("the server responded with {} {reply}", u16::from(code)));
        }
        if ReplyTooLong::is_cause_of(&error) {
            return self.protocol(during, TOO_LONG);
        }
        if error.is_response() || error.is_client() {
            // The error text of lettre may quote arbitrary input, so it is not included.
            return self.protocol(during, "the response is not a complete SMTP reply");
        }
        self.lost(during, error)
    }

    /// Returns a reply for display, as one short line. A reply that repeats the login, in any encoding or split over
    /// lines, is hidden.
    fn sanitize_reply(&self, reply: &str) -> String {
        if self.login.as_ref().is_some_and(|login| login_redactor(login).is_repeated_in(reply)) {
            return "(reply hidden because it repeats the login)".to_owned();
        }
        let is_break = |c: char| matches!(c, '\r' | '\n' | '\t');
        let line: String =
            reply.chars().map(|c| if is_break(c) { ' ' } else { c }).take(MAX_SHOWN_CHARACTERS).collect();
        visible::escape(line.trim()).into_owned()
    }
}

/// Builds a redactor for all forms in which the login is sent.
fn login_redactor((username, password): &(String, Secret)) -> Redactor {
    let mut redactor = Redactor::from_secrets([password]);
    let password = password.expose();
    redactor.add_login(username, password);
    redactor.add(&BASE64.encode(password));
    redactor.add(&BASE64.encode(format!("\0{username}\0{password}")));
    redactor
}

async fn with_deadline<T>(
    deadline: Instant,
    server: &Server,
    during: &'static str,
    work: impl Future<Output = Result<T, EmailError>>,
) -> Result<T, EmailError> {
    timeout_at(deadline, work).await.unwrap_or_else(|_| Err(server.timeout(during)))
}

/// Opens a session up to the point where a message can be submitted.
pub(super) async fn open(
    mut tcp: TcpStream,
    server: &Server,
    tls: &Tls,
    deadline: Instant,
) -> Result<AsyncSmtpConnection, EmailError> {
    let peer = tcp.peer_addr().map_err(|error| server.lost(GREETING, error))?;
    let local = tcp.local_addr().map_err(|error| server.lost(GREETING, error))?;
    let hello = client_id(local);
    let name = server.name();
    let stream: Box<dyn lettre::transport::smtp::client::AsyncTokioStream> = match server.tls {
        EmailTls::None => Box::new(BoundedStream::new(tcp, peer)),
        EmailTls::Implicit => {
            let protected =
                with_deadline(deadline, server, TLS_HANDSHAKE, tls.handshake(&server.host, &name, tcp)).await?;
            Box::new(BoundedStream::new(protected, peer))
        }
        EmailTls::Starttls => {
            with_deadline(deadline, server, GREETING, request_starttls(&mut tcp, server, &hello)).await?;
            let protected =
                with_deadline(deadline, server, TLS_HANDSHAKE, tls.handshake(&server.host, &name, tcp)).await?;
            Box::new(BoundedStream::with_greeting(protected, peer))
        }
    };
    let greeted = async {
        let connected = AsyncSmtpConnection::connect_with_transport(stream, &hello).await;
        connected.map_err(|error| server.failure(GREETING, error))
    };
    let mut connection = with_deadline(deadline, server, GREETING, greeted).await?;
    if let Some((username, password)) = &server.login {
        let credentials = Credentials::new(username.clone(), password.expose().to_owned());
        with_deadline(deadline, server, LOGIN, log_in(&mut connection, server, credentials)).await?;
    }
    Ok(connection)
}

/// Returns an address literal for EHLO (RFC 5321, 4.1.3), so that the host name is not disclosed.
fn client_id(local: SocketAddr) -> ClientId {
    match local.ip().to_canonical() {
        std::net::IpAddr::V4(address) => ClientId::Ipv4(address),
        std::net::IpAddr::V6(address) => ClientId::Ipv6(address),
    }
}

/// Performs the plain-text part of STARTTLS (RFC 3207). Replies are read byte by byte, so that no data injected after
/// the STARTTLS reply is buffered and mistaken for TLS-protected data.
async fn request_starttls(tcp: &mut TcpStream, server: &Server, hello: &ClientId) -> Result<(), EmailError> {
    expect_reply(tcp, server, "220").await?;
    send_line(tcp, server, &format!("EHLO {hello}\r\n")).await?;
    let offers = expect_reply(tcp, server, "250").await?;
    let offered = |line: &str| line.get(4..).is_some_and(|word| word.trim().eq_ignore_ascii_case("STARTTLS"));
    if !offers.lines().any(offered) {
        return Err(EmailError::NoStarttls { server: server.name() });
    }
    send_line(tcp, server, "STARTTLS\r\n").await?;
    expect_reply(tcp, server, "220").await.map(|_| ())
}

async fn send_line(tcp: &mut TcpStream, server: &Server, line: &str) -> Result<(), EmailError> {
    tcp.write_all(line.as_bytes()).await.map_err(|error| server.lost(GREETING, error))
}

/// Reads a complete reply of one or more lines, and fails unless it has `code`.
async fn expect_reply(tcp: &mut TcpStream, server: &Server, code: &str) -> Result<String, EmailError> {
    let mut bytes = Vec::new();
    let mut line_start = 0;
    loop {
        if bytes.len() >= MAX_REPLY_BYTES {
            return Err(server.protocol(GREETING, TOO_LONG));
        }
        match tcp.read_u8().await {
            Ok(byte) => bytes.push(byte),
            Err(error) => return Err(server.lost(GREETING, error)),
        }
        if bytes.last() == Some(&b'\n') {
            // `250-` starts a continued line, `250 ` the last one.
            if bytes.get(line_start + 3) != Some(&b'-') {
                break;
            }
            line_start = bytes.len();
        }
    }
    let reply = String::from_utf8_lossy(&bytes).into_owned();
    if !reply.starts_with(code) {
        return Err(server.protocol(
            GREETING,
            format!("the server responded with {}", server.sanitize_reply(&without_inner_codes(&reply))),
        ));
    }
    Ok(reply)
}

/// Removes the codes of all lines but the first. Otherwise they would hide a secret that is split over lines.
fn without_inner_codes(reply: &str) -> String {
    let mut lines = reply.lines();
    let mut text = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        text.push('\n');
        text.push_str(line.get(4..).unwrap_or(line));
    }
    text
}

async fn log_in(
    connection: &mut AsyncSmtpConnection,
    server: &Server,
    credentials: Credentials,
) -> Result<(), EmailError> {
    let mechanisms = [Mechanism::Plain, Mechanism::Login];
    if connection.server_info().get_auth_mechanism(&mechanisms).is_none() {
        return Err(EmailError::NoMechanism { server: server.name() });
    }
    match connection.auth(&mechanisms, &credentials).await {
        Ok(_) => Ok(()),
        // Only the code is reported, because the reply may repeat the password.
        Err(error) => Err(match error.status() {
            Some(code) => EmailError::Authentication { server: server.name(), code: code.into() },
            None if ReplyTooLong::is_cause_of(&error) => server.protocol(LOGIN, TOO_LONG),
            None if error.is_response() || error.is_client() => {
                server.protocol(LOGIN, "the server sent an unknown challenge or reply")
            }
            None => server.lost(LOGIN, io::Error::other("the connection was closed")),
        }),
    }
}

/// Submits one message. On success, the server has accepted it.
pub(super) async fn submit(
    mut connection: AsyncSmtpConnection,
    server: &Server,
    encoded: &EncodedMail,
    deadline: Instant,
) -> Result<(), EmailError> {
    let mut parameters = Vec::new();
    if !AsRef::<str>::as_ref(&encoded.to).is_ascii() || !AsRef::<str>::as_ref(&encoded.from).is_ascii() {
        if !connection.server_info().supports_feature(Extension::SmtpUtfEight) {
            let problem = format!("{} does not support non-ASCII addresses (SMTPUTF8)", server.name());
            return Err(EmailError::Address { address: encoded.to.to_string(), problem });
        }
        parameters.push(MailParameter::SmtpUtfEight);
    }
    let envelope = async {
        let mail = connection.command(Mail::new(Some(encoded.from.clone()), parameters)).await;
        mail.map_err(|error| match refusal(server, &error) {
            Some((reply, is_permanent)) => {
                EmailError::Sender { server: server.name(), from: encoded.from.to_string(), reply, is_permanent }
            }
            None => server.failure(ENVELOPE, error),
        })?;
        let recipient = connection.command(Rcpt::new(encoded.to.clone(), Vec::new())).await;
        recipient.map_err(|error| match refusal(server, &error) {
            Some((reply, is_permanent)) => {
                EmailError::Recipient { server: server.name(), to: encoded.to.to_string(), reply, is_permanent }
            }
            None => server.failure(ENVELOPE, error),
        })
    };
    with_deadline(deadline, server, ENVELOPE, envelope).await?;
    let message = async {
        let taken = match connection.command(Data).await {
            Ok(_) => connection.message(&encoded.bytes).await,
            Err(error) => Err(error),
        };
        taken.map_err(|error| match refusal(server, &error) {
            Some((reply, is_permanent)) => EmailError::Message { server: server.name(), reply, is_permanent },
            None => server.failure(MESSAGE, error),
        })
    };
    with_deadline(deadline, server, MESSAGE, message).await?;
    // The message is accepted, so QUIT runs in the background.
    tokio::spawn(async move { timeout(QUIT_TIMEOUT, connection.quit()).await });
    Ok(())
}

/// Returns the reply of a rejection, and whether it is permanent (5xx).
fn refusal(server: &Server, error: &SmtpError) -> Option<(String, bool)> {
    let code = error.status()?;
    Some((format!("{} {}", u16::from(code), server.sanitize_reply(&reply_text(error))), error.is_permanent()))
}

fn reply_text(error: &SmtpError) -> String {
    std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
}
