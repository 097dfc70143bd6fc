//! `runtime.v1.ImageService`. The methods parse, call other modules and render.

use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, codegen::BoxStream};

use super::{
    chunks::{chunks, whole},
    layer::about,
};
use crate::{
    host::clock,
    image::service::Images,
    model::{record::ImageRecord, reference::printable, time::Nanos},
    stats::service::Stats,
    store::{handle::Store, settings::SYNC_TIMEOUT},
    translate::{parse, render},
    wire::cri::{self, image_service_server::ImageService},
};

/// The image service of the CRI.
#[derive(Clone)]
pub struct ImageRpc {
    pub images: Images,
    pub stats: Stats,
    pub store: Store,
    pub shutdown: CancellationToken,
}

impl ImageRpc {
    pub(super) fn render(&self, image: &ImageRecord) -> cri::Image {
        render::image::image(image, self.images.is_pinned(image))
    }
}

#[tonic::async_trait]
impl ImageService for ImageRpc {
    async fn list_images(
        &self,
        request: Request<cri::ListImagesRequest>,
    ) -> Result<Response<cri::ListImagesResponse>, Status> {
        let images = self.listed(request.get_ref().filter.as_ref()).await?.collect();
        whole(cri::ListImagesResponse { images }, "StreamImages")
    }

    async fn stream_images(
        &self,
        request: Request<cri::StreamImagesRequest>,
    ) -> Result<Response<BoxStream<cri::StreamImagesResponse>>, Status> {
        let items = self.listed(request.get_ref().filter.as_ref()).await?;
        let to_message = |images| cri::StreamImagesResponse { images };
        Ok(chunks(items, to_message, self.shutdown.clone()))
    }

    async fn image_status(
        &self,
        request: Request<cri::ImageStatusRequest>,
    ) -> Result<Response<cri::ImageStatusResponse>, Status> {
        let request = request.into_inner();
        let name = parse::image::image_name(request.image.as_ref())?;
        let image = self.store.inspected_image(&name).await?;
        let info = image.as_deref().filter(|_| request.verbose).map(render::image::info);
        Ok(Response::new(cri::ImageStatusResponse {
            image: image.map(|image| self.render(&image)),
            info: info.unwrap_or_default(),
        }))
    }

    async fn pull_image(
        &self,
        request: Request<cri::PullImageRequest>,
    ) -> Result<Response<cri::PullImageResponse>, Status> {
        let request = request.into_inner();
        let wanted = parse::image::pull_request(request.image.as_ref(), request.auth.as_ref())?;
        about(&wanted.reference);
        self.store.described(SYNC_TIMEOUT).await?;
        let id = self.images.pull(wanted).await?;
        Ok(Response::new(cri::PullImageResponse { image_ref: id.into() }))
    }

    async fn remove_image(
        &self,
        request: Request<cri::RemoveImageRequest>,
    ) -> Result<Response<cri::RemoveImageResponse>, Status> {
        let name = parse::image::image_name(request.get_ref().image.as_ref())?;
        about(printable(&name));
        self.store.described(SYNC_TIMEOUT).await?;
        self.images.remove(&name).await?;
        Ok(Response::new(cri::RemoveImageResponse {}))
    }

    async fn image_fs_info(
        &self,
        _request: Request<cri::ImageFsInfoRequest>,
    ) -> Result<Response<cri::ImageFsInfoResponse>, Status> {
        let usage = self.images.filesystem().await?;
        let (layers, now) = (self.stats.layer_bytes(), Nanos(clock::nanos()));
        Ok(Response::new(render::image::filesystem(&usage, layers, now)))
    }
}
