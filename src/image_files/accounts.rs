//! The users and groups of images. They are read once for each image.

use std::sync::Arc;

use super::{error::UnreadableFile, inspection::ImageInspection, service::ImageFiles};
use crate::{
    error::{Failure, Kind, WithKind},
    model::{accounts::Accounts, id::ImageId},
};

impl ImageFiles {
    /// The users and groups of an image. Callers at the same time share one inspection.
    ///
    /// # Errors
    /// The image does not exist, one of its files is too large or not a regular file, or the engine fails.
    pub async fn accounts(&self, image: &ImageId) -> Result<Arc<Accounts>, UnreadableFile> {
        let known = self.accounts.lock().get(image).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let (service, id) = (self.clone(), image.clone());
        let reading = async move {
            let read = service.read_accounts(&id).await?;
            Ok(service.cache_accounts(id, read))
        };
        self.reading.run(image.clone(), reading).await.map_err(Failure::from)?
    }

    async fn read_accounts(&self, image: &ImageId) -> Result<Accounts, UnreadableFile> {
        let mut is_repeated = false;
        loop {
            let inspection = self.inspect(image).await?;
            let read = read_accounts(&inspection).await;
            inspection.close().await;
            match read {
                // Another dockbridge that just started has removed our inspection container as a leftover.
                Err(error) if error.kind() == Kind::NotFound && !is_repeated => {
                    is_repeated = true;
                }
                read => return read,
            }
        }
    }

    /// When the cache is full, removes images that the engine no longer has. If that is not enough, removes all.
    fn cache_accounts(&self, image: ImageId, accounts: Accounts) -> Arc<Accounts> {
        let accounts = Arc::new(accounts);
        let mut known = self.accounts.lock();
        if known.len() >= CACHED {
            let now = self.store.snapshot();
            known.retain(|image, _| now.image(image.as_str()).is_some());
            if known.len() >= CACHED {
                known.clear();
            }
        }
        known.insert(image, Arc::clone(&accounts));
        accounts
    }
}

/// Both paths are checked before either file is read: see [`ImageInspection::file`].
async fn read_accounts(inspection: &ImageInspection) -> Result<Accounts, UnreadableFile> {
    let (passwd, group) = tokio::try_join!(
        inspection.file("/etc/passwd", LARGEST_FILE),
        inspection.file("/etc/group", LARGEST_FILE),
    )?;
    let read = async |file: Option<String>| match file {
        Some(file) => inspection.read(&file, LARGEST_FILE).await.map(Option::unwrap_or_default),
        None => Ok(Vec::new()),
    };
    let (passwd, group) = tokio::try_join!(read(passwd), read(group))?;
    Ok(Accounts::parse(&passwd, &group))
}

/// In bytes; much more than in any image.
const LARGEST_FILE: u64 = 1 << 20;
const CACHED: usize = 512;
