//! What is said to the server, step by step, each within the deadline.

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
use super::message::Letter;
use super::stream::{MAX_REPLY_BYTES, ReplyTooLong, Talk};
use super::tls::Tls;

const GREETING: &str = "while it greeted";
const PROTECTING: &str = "while the connection was being protected";
const LOGIN: &str = "while logging in";
const ADDRESSES: &str = "while it heard sender and recipient";
const TAKING: &str = "while it took the message";
/// The problem of a reply that is too long.
const TOO_LONG: &str = "its reply is too long";
/// A reply is shown to the owner up to here.
const SHOWN_CHARACTERS: usize = 200;
/// A farewell is a courtesy.
const FAREWELL: Duration = Duration::from_secs(5);

/// A mail server, and how it is used.
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: EmailTls,
    /// User name and password.
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

    /// A failure that is no refusal of anything in particular.
    fn failure(&self, during: &'static str, error: SmtpError) -> EmailError {
        if let Some(code) = error.status() {
            let said = self.shown(&reply_text(&error));
            return self.protocol(during, format!("it answered {} {said}", u16::from(code)));
        }
        if ReplyTooLong::is_cause_of(&error) {
            return self.protocol(during, TOO_LONG);
        }
        if error.is_response() || error.is_client() {
            // What lettre says of it quotes no more than it read, which may be anything.
            return self.protocol(during, "its answer is no reply of SMTP, or was cut off");
        }
        self.lost(during, error)
    }

    /// A reply as it is shown: one short line. Nothing of it is shown where it repeats the login in any encoding or
    /// split over lines.
    fn shown(&self, reply: &str) -> String {
        if self.login.as_ref().is_some_and(|login| heard(login).is_repeated_in(reply)) {
            return "(what it said is not shown, for it repeats the login)".to_owned();
        }
        let is_break = |c: char| matches!(c, '\r' | '\n' | '\t');
        let line: String = reply.chars().map(|c| if is_break(c) { ' ' } else { c }).take(SHOWN_CHARACTERS).collect();
        visible::escape(line.trim()).into_owned()
    }
}

/// The forms in which a server hears the password.
fn heard((username, password): &(String, Secret)) -> Redactor {
    let mut heard = Redactor::of([password]);
    let password = password.expose();
    heard.add_login(username, password);
    heard.add(&BASE64.encode(password));
    heard.add(&BASE64.encode(format!("\0{username}\0{password}")));
    heard
}

async fn within<T>(
    deadline: Instant,
    server: &Server,
    during: &'static str,
    work: impl Future<Output = Result<T, EmailError>>,
) -> Result<T, EmailError> {
    timeout_at(deadline, work).await.unwrap_or_else(|_| Err(server.timeout(during)))
}

/// Everything up to the point where a message can be handed over.
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
        EmailTls::None => Box::new(Talk::new(tcp, peer)),
        EmailTls::Implicit => {
            let protected = within(deadline, server, PROTECTING, tls.protect(&server.host, &name, tcp)).await?;
            Box::new(Talk::new(protected, peer))
        }
        EmailTls::Starttls => {
            within(deadline, server, GREETING, ask_for_tls(&mut tcp, server, &hello)).await?;
            let protected = within(deadline, server, PROTECTING, tls.protect(&server.host, &name, tcp)).await?;
            Box::new(Talk::greeted(protected, peer))
        }
    };
    let greeted = async {
        let connected = AsyncSmtpConnection::connect_with_transport(stream, &hello).await;
        connected.map_err(|error| server.failure(GREETING, error))
    };
    let mut connection = within(deadline, server, GREETING, greeted).await?;
    if let Some((username, password)) = &server.login {
        let credentials = Credentials::new(username.clone(), password.expose().to_owned());
        within(deadline, server, LOGIN, log_in(&mut connection, server, credentials)).await?;
    }
    Ok(connection)
}

/// An address literal: the name of this machine is nobody's business (RFC 5321, 4.1.3).
fn client_id(local: SocketAddr) -> ClientId {
    match local.ip().to_canonical() {
        std::net::IpAddr::V4(address) => ClientId::Ipv4(address),
        std::net::IpAddr::V6(address) => ClientId::Ipv6(address),
    }
}

/// The part before the protection (RFC 3207). It is read byte by byte, so that nothing which comes
/// behind the server's consent is taken for something that was said under protection.
async fn ask_for_tls(tcp: &mut TcpStream, server: &Server, hello: &ClientId) -> Result<(), EmailError> {
    expect(tcp, server, "220").await?;
    say(tcp, server, &format!("EHLO {hello}\r\n")).await?;
    let offers = expect(tcp, server, "250").await?;
    let offered = |line: &str| line.get(4..).is_some_and(|word| word.trim().eq_ignore_ascii_case("STARTTLS"));
    if !offers.lines().any(offered) {
        return Err(EmailError::NoStarttls { server: server.name() });
    }
    say(tcp, server, "STARTTLS\r\n").await?;
    expect(tcp, server, "220").await.map(|_| ())
}

async fn say(tcp: &mut TcpStream, server: &Server, line: &str) -> Result<(), EmailError> {
    tcp.write_all(line.as_bytes()).await.map_err(|error| server.lost(GREETING, error))
}

/// A whole reply, of one or several lines, that must have `code`.
async fn expect(tcp: &mut TcpStream, server: &Server, code: &str) -> Result<String, EmailError> {
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
            // `250-` goes on, `250 ` is the last line.
            if bytes.get(line_start + 3) != Some(&b'-') {
                break;
            }
            line_start = bytes.len();
        }
    }
    let reply = String::from_utf8_lossy(&bytes).into_owned();
    if !reply.starts_with(code) {
        return Err(server.protocol(GREETING, format!("it answered {}", server.shown(&without_inner_codes(&reply)))));
    }
    Ok(reply)
}

/// The reply without the codes of all lines but the first: they would stand between the halves of a split secret.
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
        // The code alone: the server has just heard the password.
        Err(error) => Err(match error.status() {
            Some(code) => EmailError::Authentication { server: server.name(), code: code.into() },
            None if ReplyTooLong::is_cause_of(&error) => server.protocol(LOGIN, TOO_LONG),
            None if error.is_response() || error.is_client() => {
                server.protocol(LOGIN, "it asked or answered something unknown")
            }
            None => server.lost(LOGIN, io::Error::other("the connection ended")),
        }),
    }
}

/// Hands one message over. On success the server has it.
pub(super) async fn hand_over(
    mut connection: AsyncSmtpConnection,
    server: &Server,
    letter: &Letter,
    deadline: Instant,
) -> Result<(), EmailError> {
    let mut parameters = Vec::new();
    if !AsRef::<str>::as_ref(&letter.to).is_ascii() || !AsRef::<str>::as_ref(&letter.from).is_ascii() {
        if !connection.server_info().supports_feature(Extension::SmtpUtfEight) {
            let problem = format!("{} takes no addresses beyond ASCII (SMTPUTF8)", server.name());
            return Err(EmailError::Address { address: letter.to.to_string(), problem });
        }
        parameters.push(MailParameter::SmtpUtfEight);
    }
    let envelope = async {
        let mail = connection.command(Mail::new(Some(letter.from.clone()), parameters)).await;
        mail.map_err(|error| match refusal(server, &error) {
            Some((reply, for_good)) => {
                EmailError::Sender { server: server.name(), from: letter.from.to_string(), reply, for_good }
            }
            None => server.failure(ADDRESSES, error),
        })?;
        let recipient = connection.command(Rcpt::new(letter.to.clone(), Vec::new())).await;
        recipient.map_err(|error| match refusal(server, &error) {
            Some((reply, for_good)) => {
                EmailError::Recipient { server: server.name(), to: letter.to.to_string(), reply, for_good }
            }
            None => server.failure(ADDRESSES, error),
        })
    };
    within(deadline, server, ADDRESSES, envelope).await?;
    let message = async {
        let taken = match connection.command(Data).await {
            Ok(_) => connection.message(&letter.bytes).await,
            Err(error) => Err(error),
        };
        taken.map_err(|error| match refusal(server, &error) {
            Some((reply, for_good)) => EmailError::Message { server: server.name(), reply, for_good },
            None => server.failure(TAKING, error),
        })
    };
    within(deadline, server, TAKING, message).await?;
    // It has the message; nothing waits for the farewell.
    tokio::spawn(async move { timeout(FAREWELL, connection.quit()).await });
    Ok(())
}

/// A refusal by code: what was said, and whether it holds for good (5xx). 421 means that the server
/// is going away, whatever it was asked.
fn refusal(server: &Server, error: &SmtpError) -> Option<(String, bool)> {
    let code = error.status()?;
    Some((format!("{} {}", u16::from(code), server.shown(&reply_text(error))), error.is_permanent()))
}

fn reply_text(error: &SmtpError) -> String {
    std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
}
