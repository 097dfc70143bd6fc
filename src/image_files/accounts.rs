//! Reads the users and groups of images, and caches them.

use std::sync::Arc;

use super::{error::UnreadableFile, inspection::ImageInspection, service::ImageFiles};
use crate::{
    error::{Failure, Kind, WithKind},
    model::{accounts::Accounts, id::ImageId},
};

impl ImageFiles {
    /// The users and groups of an image. Callers that ask for the same image at the same time share one inspection.
    ///
    /// # Errors
    /// The image does not exist, `/etc/passwd` or `/etc/group` is too large or is a pipe, device or socket, or a call
    /// of the engine fails.
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
                // Another dockbridge process that has just started may have removed the inspection container.
                Err(error) if error.kind() == Kind::NotFound && !is_repeated => {
                    is_repeated = true;
                }
                read => return read,
            }
        }
    }

    /// Adds accounts to the cache. If the cache is full, first removes the accounts of images that the engine
    /// no longer has; if it is still full, removes all.
    fn cache_accounts(&self, image: ImageId, accounts: Accounts) -> Arc<Accounts> {
        let accounts = Arc::new(accounts);
        let mut known = self.accounts.lock();
        if known.len() >= CACHED_FILES {
            let now = self.store.snapshot();
            known.retain(|image, _| now.image(image.as_str()).is_some());
            if known.len() >= CACHED_FILES {
                known.clear();
            }
        }
        known.insert(image, Arc::clone(&accounts));
        accounts
    }
}

/// Reads `/etc/passwd` and `/etc/group`. Checks both paths first: see [`ImageInspection::read`].
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

/// The largest `/etc/passwd` or `/etc/group` that is read, in bytes. Those of real images are much smaller.
const LARGEST_FILE: u64 = 1 << 20;
const CACHED_FILES: usize = 512;
