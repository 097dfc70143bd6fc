//! Target of `make fuzz`: however a plugin's bytes are split into pieces, dockbridge decodes them to the same
//! messages or the same error, with limited memory.

use super::{
    mux::{Channel, Demux, MESSAGE_HEADER, MESSAGE_LIMIT, ProtocolError, frames},
    ttrpc::{Decoder, Envelope, decode},
};
use crate::{fuzz_input::portions, wire::nri};

/// Decodes the frames that a plugin sends, and the messages in the frames.
pub(crate) fn frames_of_plugins(bytes: &[u8]) {
    let whole = read([bytes].into_iter());
    let pieces = read(portions(bytes).into_iter());
    assert_eq!(whole, pieces, "the pieces decide what is read");
    let Ok(messages) = whole else { return };
    for (channel, envelope) in messages {
        let _ = decode::<nri::CreateContainerResponse>(&envelope.payload);
        let again = frames(channel, &envelope.encoded());
        assert_eq!(read([again.as_slice()].into_iter()), Ok(vec![(channel, envelope)]));
    }
}

fn read<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<(Channel, Envelope)>, ProtocolError> {
    let (mut demux, mut answers, mut calls) =
        (Demux::default(), Decoder::default(), Decoder::default());
    let mut found = Vec::new();
    for piece in pieces {
        demux.push(piece, |channel, payload| {
            let decoder = match channel {
                Channel::Plugin => &mut answers,
                Channel::Runtime => &mut calls,
            };
            let pushed = decoder.push(payload, |envelope| {
                found.push((channel, envelope));
                Ok(())
            });
            assert!(decoder.held() <= MESSAGE_LIMIT + MESSAGE_HEADER);
            pushed
        })?;
    }
    Ok(found)
}
