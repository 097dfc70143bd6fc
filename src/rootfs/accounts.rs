//! The accounts of images, looked up once for each image in this process's life.

use std::sync::{Arc, PoisonError};

use super::{error::RootfsError, peek::Peek, room::Rootfs};
use crate::{
    engine::error::{EngineError, Subject},
    model::{accounts::Accounts, id::ImageId},
};

impl Rootfs {
    /// Who is known inside an image. Callers who ask meanwhile wait for the same look.
    ///
    /// # Errors
    /// There is no such image, one of its files is out of all proportion, or the engine fails.
    pub async fn accounts(&self, image: &ImageId) -> Result<Arc<Accounts>, RootfsError> {
        if let Some(known) = self.known_accounts(image) {
            return Ok(known);
        }
        let (room, id) = (self.clone(), image.clone());
        let reading = async move {
            let read = match room.read_accounts(&id).await {
                // Another dockbridge that just started took ours for remains.
                Err(RootfsError::Engine(EngineError::NotFound {
                    subject: Subject::Container(_),
                    ..
                })) => room.read_accounts(&id).await,
                outcome => outcome,
            };
            read.map(|accounts| room.keep_accounts(id, accounts))
        };
        self.reading.run(image.clone(), reading).await.map_err(|_| RootfsError::Lost)?
    }

    fn known_accounts(&self, image: &ImageId) -> Option<Arc<Accounts>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner).get(image).cloned()
    }

    async fn read_accounts(&self, image: &ImageId) -> Result<Accounts, RootfsError> {
        let peek = self.peek(image).await?;
        let read = read_accounts(&peek).await;
        peek.close().await;
        read
    }

    /// Room is made by what the engine has no more, and by all when that is not enough.
    fn keep_accounts(&self, image: ImageId, accounts: Accounts) -> Arc<Accounts> {
        let accounts = Arc::new(accounts);
        let mut known = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            let now = self.store.snapshot();
            known.retain(|image, _| now.image(image.as_str()).is_some());
            if known.len() >= KEPT {
                known.clear();
            }
        }
        known.insert(image, Arc::clone(&accounts));
        accounts
    }
}

/// Neither file is read before both are known to be files: see [`Peek::read`].
async fn read_accounts(peek: &Peek) -> Result<Accounts, RootfsError> {
    let (passwd, group) = tokio::try_join!(
        peek.file("/etc/passwd", LARGEST_FILE),
        peek.file("/etc/group", LARGEST_FILE),
    )?;
    let read = async |file: Option<String>| match file {
        Some(file) => peek.read(&file, LARGEST_FILE).await.map(Option::unwrap_or_default),
        None => Ok(Vec::new()),
    };
    let (passwd, group) = tokio::try_join!(read(passwd), read(group))?;
    Ok(Accounts::parse(&passwd, &group))
}

/// Far more than any image's, in bytes.
const LARGEST_FILE: u64 = 1 << 20;
/// Of how many images the accounts are kept.
const KEPT: usize = 512;
