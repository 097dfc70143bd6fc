//! The users and groups of images, read once for each image.

use std::sync::Arc;

use super::{error::ImageFilesError, inspection::ImageInspection, service::ImageFiles};
use crate::{
    engine::error::{EngineError, Subject},
    model::{accounts::Accounts, id::ImageId},
};

impl ImageFiles {
    /// The users and groups of an image. Concurrent callers wait for the same inspection.
    ///
    /// # Errors
    /// There is no such image, one of its files is too large or no file, or the engine fails.
    pub async fn accounts(&self, image: &ImageId) -> Result<Arc<Accounts>, ImageFilesError> {
        if let Some(known) = self.known_accounts(image) {
            return Ok(known);
        }
        let (service, id) = (self.clone(), image.clone());
        let reading = async move {
            let read = match service.read_accounts(&id).await {
                // Another dockbridge that just started removed ours as a leftover.
                Err(ImageFilesError::Engine(EngineError::NotFound {
                    subject: Subject::Container(_),
                    ..
                })) => service.read_accounts(&id).await,
                outcome => outcome,
            };
            read.map(|accounts| service.cache_accounts(id, accounts))
        };
        self.reading.run(image.clone(), reading).await?
    }

    fn known_accounts(&self, image: &ImageId) -> Option<Arc<Accounts>> {
        self.accounts.lock().get(image).cloned()
    }

    async fn read_accounts(&self, image: &ImageId) -> Result<Accounts, ImageFilesError> {
        let inspection = self.inspect(image).await?;
        let read = read_accounts(&inspection).await;
        inspection.close().await;
        read
    }

    /// A full cache drops images that the engine no longer has, or all when that is not enough.
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

/// Neither file is read before both are known to be files: see [`ImageInspection::file`].
async fn read_accounts(inspection: &ImageInspection) -> Result<Accounts, ImageFilesError> {
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

/// In bytes; far more than any image has.
const LARGEST_FILE: u64 = 1 << 20;
/// How many images the cache has.
const CACHED: usize = 512;
