//! A deliberately slow storage server on 127.0.0.1, for `demo --bottleneck io`. Its listening socket is its standard
//! input: the parent binds it, so the port is known before the server runs.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use super::plan::{DemoPlan, SOURCE_BYTES};
use super::worker::REQUESTS;
use crate::cli::DemoBottleneck;

/// Serves until killed, if the standard input is a listening socket.
pub fn run() -> anyhow::Result<()> {
    super::become_part(c"demo-storage");
    let listener = TcpListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || serve(stream));
    }
    Ok(())
}

/// Answers each request (a length) with so many bytes, late.
fn serve(mut stream: TcpStream) -> io::Result<()> {
    let delay = DemoPlan::new(DemoBottleneck::Io).storage.unwrap_or_default() / REQUESTS as u32;
    let answer = vec![0x5a; SOURCE_BYTES];
    let mut length = [0; 4];
    loop {
        stream.read_exact(&mut length)?;
        std::thread::sleep(delay);
        let length = u32::from_le_bytes(length) as usize;
        stream.write_all(answer.get(..length).unwrap_or(&answer))?;
    }
}
