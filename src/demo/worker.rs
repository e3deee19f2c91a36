//! A worker: takes an index from its standard input, loads and transforms a batch, and sends it over its standard
//! output. A second thread does the sending, so that the next batch is begun meanwhile.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::plan::{BATCH_BYTES, DATASET_BYTES, SOURCE_BYTES};

/// Requests to the storage server for one batch: many small files, one after the other.
pub const REQUESTS: usize = 4;

/// What a worker is told.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// CPU time for a batch, microseconds.
    #[arg(long)]
    transform_us: u64,
    /// The data set's file.
    #[arg(long)]
    data: PathBuf,
    /// The storage server, instead of the file.
    #[arg(long)]
    storage: Option<SocketAddr>,
}

/// Works until its standard input is closed.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    super::become_part(c"demo-worker");
    let mut source = match arguments.storage {
        Some(address) => Source::Server(TcpStream::connect(address).context("no storage server")?),
        None => Source::File(File::open(&arguments.data).context("no data set")?),
    };
    // Raw descriptors: the buffers of std's standard streams would split a batch into several writes.
    let mut indices = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut batches = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (send, receive) = std::sync::mpsc::sync_channel::<Vec<u8>>(0);
    let sender = std::thread::spawn(move || receive.iter().try_for_each(|batch| batches.write_all(&batch)));
    let mut data = vec![0; SOURCE_BYTES];
    let mut index = [0; 8];
    while indices.read_exact(&mut index).is_ok() {
        source.load(u64::from_le_bytes(index), &mut data)?;
        super::burn(Duration::from_micros(arguments.transform_us), &mut data);
        let mut batch = data.get(..BATCH_BYTES).unwrap_or_default().to_vec();
        if let Some(start) = batch.get_mut(..8) {
            start.copy_from_slice(&index);
        }
        if send.send(batch).is_err() {
            break;
        }
    }
    drop(send);
    let _ = sender.join();
    Ok(())
}

enum Source {
    File(File),
    Server(TcpStream),
}

impl Source {
    fn load(&mut self, index: u64, data: &mut [u8]) -> anyhow::Result<()> {
        match self {
            Self::File(file) => {
                let places = (DATASET_BYTES / SOURCE_BYTES as u64).max(1);
                let place = index.wrapping_mul(7919) % places * SOURCE_BYTES as u64;
                file.read_exact_at(data, place).context("the data set cannot be read")
            }
            Self::Server(stream) => {
                for part in data.chunks_mut(SOURCE_BYTES / REQUESTS) {
                    stream.write_all(&(part.len() as u32).to_le_bytes()).context("the storage server is gone")?;
                    stream.read_exact(part).context("the storage server is gone")?;
                }
                Ok(())
            }
        }
    }
}
