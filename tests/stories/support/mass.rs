//! A large amount of data, in which a receiver can check each byte.

use std::process::Stdio;

use rand::{RngCore, SeedableRng, rngs::StdRng};
use tokio::{io::AsyncWriteExt, process::Command};

use super::{
    channel::{Reader, Writer},
    failure::{Outcome, ensure, ensure_eq},
};

/// The bytes repeat after a length that no buffer has, so that a check notices lost, repeated or swapped pieces.
#[derive(Debug)]
pub(crate) struct Mass {
    block: Vec<u8>,
    length: usize,
}

impl Mass {
    /// Creates `length` bytes. The same seed gives the same bytes.
    pub(crate) fn new(seed: u64, length: usize) -> Self {
        let mut block = vec![0; 1_048_583];
        StdRng::seed_from_u64(seed).fill_bytes(&mut block);
        Self { block, length }
    }

    pub(crate) async fn send(&self, to: &Writer) -> Outcome {
        for piece in self.pieces() {
            to.send(piece).await?;
        }
        Ok(())
    }

    /// Receives all the data and checks it. With `ends`, the stream must end after the data.
    pub(crate) async fn receive(&self, from: &mut Reader, ends: bool) -> Outcome {
        let mut place = 0;
        while ends || place < self.length {
            let Some(piece) = from.next().await? else { break };
            self.check(place, &piece)?;
            place += piece.len();
        }
        ensure_eq!(place, self.length, "(bytes received)");
        Ok(())
    }

    /// The data's SHA-256, calculated with the program `sha256sum`, which is faster than code of a debug build.
    pub(crate) async fn sum(&self) -> Outcome<String> {
        let mut command = Command::new("sha256sum");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            for piece in self.pieces() {
                stdin.write_all(piece).await?;
            }
        }
        let output = String::from_utf8(child.wait_with_output().await?.stdout)?;
        Ok(output.split(' ').next().unwrap_or_default().to_owned())
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let whole = self.length / self.block.len();
        let rest = &self.block[..self.length % self.block.len()];
        std::iter::repeat_n(&self.block[..], whole).chain([rest])
    }

    fn check(&self, mut place: usize, mut piece: &[u8]) -> Outcome {
        while !piece.is_empty() {
            let rest = &self.block[place % self.block.len()..];
            let (now, later) = piece.split_at(piece.len().min(rest.len()));
            ensure!(now == &rest[..now.len()], "wrong bytes after {place}");
            (place, piece) = (place + now.len(), later);
        }
        Ok(())
    }
}
