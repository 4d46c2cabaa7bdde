//! Login of a client: the startup message, the authentication that the server asks for, its settings.

use std::mem;

use lasthop_trial::failure::Failure;

use super::{
    channel,
    message::{self, Framer, Requests, message, server_error, unexpected},
    scram,
    spec::{ChannelBinding, Postgres},
};
use crate::exchange;

/// Progress of the login.
#[derive(Default)]
enum LoginStage {
    #[default]
    Start,
    Authentication,
    /// SCRAM has begun; `bound` to the TLS connection or not.
    Scram {
        first: scram::First,
        bound: bool,
    },
    /// The server has the client's proof.
    Proven {
        last: scram::Last,
        bound: bool,
    },
    /// Authenticated; the server's settings follow until it is ready.
    Settings,
    Preparing,
    Over,
}

/// The login of one connection.
#[derive(Default)]
pub struct Login {
    framer: Framer,
    stage: LoginStage,
    /// The server's certificate on an encrypted stream, until the login is over.
    certificate: Option<Vec<u8>>,
    /// Whether the server has proven that it knows the password, on this very TLS connection.
    bound: bool,
    /// Whether the server has asked for a password, in any form.
    pub asked: bool,
}

impl Login {
    /// Sets the server's certificate of an encrypted stream.
    pub fn secured(&mut self, certificate: &[u8]) {
        self.certificate = Some(certificate.to_vec());
    }

    /// Takes the server's messages, none the first time, and answers them; true when the login is over.
    pub fn go_on(&mut self, requests: &Requests, input: &[u8], output: &mut Vec<u8>) -> Result<bool, Failure> {
        if matches!(self.stage, LoginStage::Start) {
            output.extend_from_slice(&requests.startup);
            self.stage = LoginStage::Authentication;
        }
        exchange::hear(input, |bytes| {
            let (used, whole) = self.framer.feed(bytes, |_| true)?;
            Ok((used, whole && self.take_message(requests, output)?))
        })
    }

    /// Acts on a complete message of the login; true when the connection is ready.
    fn take_message(&mut self, requests: &Requests, output: &mut Vec<u8>) -> Result<bool, Failure> {
        match self.framer.kind() {
            b'E' => {
                let preparing = matches!(self.stage, LoginStage::Preparing);
                let stage = if preparing { "prepare" } else { "authentication" };
                Err(server_error(stage, &self.framer.body))
            }
            b'R' => self.authenticate(&requests.spec, output).map(|()| false),
            b'Z' if matches!(self.stage, LoginStage::Settings) && !requests.prepare.is_empty() => {
                output.extend_from_slice(&requests.prepare);
                self.stage = LoginStage::Preparing;
                Ok(false)
            }
            b'Z' if matches!(self.stage, LoginStage::Settings | LoginStage::Preparing) => {
                self.stage = LoginStage::Over;
                self.certificate = None;
                Ok(true)
            }
            // Settings, cancellation key, notices, protocol negotiation, parse complete.
            b'S' | b'K' | b'N' | b'v' | b'1' => Ok(false),
            other => Err(unexpected(other)),
        }
    }

    fn authenticate(&mut self, spec: &Postgres, output: &mut Vec<u8>) -> Result<(), Failure> {
        let body = mem::take(&mut self.framer.body);
        let Some((code, rest)) = body.split_first_chunk::<4>() else {
            return Err(Failure::protocol("the authentication message is too short"));
        };
        let code = i32::from_be_bytes(*code);
        self.asked |= code != 0;
        // 3 asks for the password itself, 5 for its MD5 with a salt, 10 to 12 are the steps of SASL, and 0 accepts the
        // client.
        match (code, rest) {
            (0, _) => {
                if spec.channel_binding == ChannelBinding::Require && !self.bound {
                    return Err(unbound("the server let us in without it"));
                }
                self.stage = LoginStage::Settings;
            }
            // A server whose identity is not proven gets no password.
            (3 | 5, _) if spec.channel_binding == ChannelBinding::Require => {
                return Err(unbound("the server asks for a method that knows none"));
            }
            (3, _) => output.extend(message::password(password(spec)?)),
            (5, &[a, b, c, d]) => {
                output.extend(message::password(&md5_proof(&spec.user, password(spec)?, [a, b, c, d])));
            }
            (10, mechanisms) => {
                let (name, binding) = self.mechanism(spec.channel_binding, mechanisms)?;
                let bound = name == scram::SHA_256_PLUS;
                let first = scram::First::new(password(spec)?, binding)?;
                output.extend(message::initial_response(name, &first.message()));
                self.stage = LoginStage::Scram { first, bound };
            }
            (11, data) => {
                let stage = mem::replace(&mut self.stage, LoginStage::Authentication);
                let LoginStage::Scram { first, bound } = stage else {
                    return Err(unexpected(b'R'));
                };
                let last = first.answer(data)?;
                output.extend(message(b'p', last.message().as_bytes()));
                self.stage = LoginStage::Proven { last, bound };
            }
            (12, data) => {
                let LoginStage::Proven { last, bound } = &self.stage else {
                    return Err(unexpected(b'R'));
                };
                last.confirm(data)?;
                self.bound = *bound;
                self.stage = LoginStage::Authentication;
            }
            (method, _) => {
                let text = format!("authentication: the server asks for method {method}, which is not supported");
                return Err(Failure::protocol(text));
            }
        }
        Ok(())
    }

    /// Selects one of the mechanisms that the server offers, and the channel binding, as libpq does (RFC 5802, section
    /// 6). If the server does not offer to bind, the client says that it could, so that no one in between can remove
    /// the offer.
    fn mechanism(&self, wanted: ChannelBinding, offered: &[u8]) -> Result<(&'static str, scram::Binding), Failure> {
        let offers = |mechanism: &str| {
            offered
                .split(|byte| *byte == 0)
                .any(|name| name == mechanism.as_bytes())
        };
        let certificate = self
            .certificate
            .as_deref()
            .filter(|_| wanted != ChannelBinding::Disable);
        let end_point = certificate.and_then(channel::server_end_point);
        match end_point {
            Some(digest) if offers(scram::SHA_256_PLUS) => Ok((scram::SHA_256_PLUS, scram::Binding::EndPoint(digest))),
            None if wanted == ChannelBinding::Require => Err(unbound(
                "the signature of the server's certificate has no digest for it",
            )),
            _ if wanted == ChannelBinding::Require => Err(unbound("the server does not offer it")),
            _ if !offers(scram::SHA_256) => Err(Failure::protocol("the server offers no SCRAM-SHA-256")),
            Some(_) => Ok((scram::SHA_256, scram::Binding::NotOffered)),
            None => Ok((scram::SHA_256, scram::Binding::Unsupported)),
        }
    }
}

fn password(spec: &Postgres) -> Result<&str, Failure> {
    spec.password
        .as_deref()
        .ok_or_else(|| Failure::refused("authentication: the server wants a password, none is given"))
}

/// The MD5 response: proves knowledge of the password without sending it.
fn md5_proof(user: &str, password: &str, salt: [u8; 4]) -> String {
    // MD5(MD5(password, user), salt): the server stores the inner digest.
    let secret = format!("{:x}", md5::compute(format!("{password}{user}")));
    format!("md5{:x}", md5::compute([secret.as_bytes(), &salt].concat()))
}

fn unbound(why: &str) -> Failure {
    Failure::refused(format!("authentication: channel binding is required, but {why}"))
}
