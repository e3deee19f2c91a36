//! Small files that the user names: a token, certificates, a key.

use std::io::Read;
use std::path::Path;

use super::token::Token;
use trainmon_base::errors::Failure;
use trainmon_sources::regular_file;

/// More is read of none, bytes.
const SMALL: u64 = 1 << 20;

/// The text of a small file that the user names. A Secret of Kubernetes lies in a directory that everyone may write to, so its
/// owner does not count here.
///
/// # Errors
/// It cannot be read.
pub fn text_of(path: &Path) -> Result<String, Failure> {
    let read = || {
        let mut text = String::new();
        regular_file::opened(path)?.take(SMALL).read_to_string(&mut text)?;
        Ok(text)
    };
    read().map_err(|why: std::io::Error| Failure::usage(format!("cannot read {}: {why}", path.display())))
}

/// The token in a file.
///
/// # Errors
/// It cannot be read, or has no token.
pub fn token(path: &Path) -> anyhow::Result<Token> {
    let text = text_of(path)?;
    Ok(Token::new(&text).map_err(|why| {
        Failure::usage(format!("no token in {}: {why}; `openssl rand -hex 32` makes one", path.display()))
    })?)
}
