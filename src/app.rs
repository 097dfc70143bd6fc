//! The server process: builds the services from the settings, serves, and shuts down.
//!
//! Start with [`run`]. [`services`] builds the services, [`ownership`] locks the engine against a second
//! server, and [`cleanup`] removes what crashes and other programs have left.

mod admin;
mod cleanup;
pub mod environment;
pub mod error;
mod ownership;
mod reload;
mod services;
mod span_export;
mod start_check;
mod watchdog;

use std::{convert::Infallible, future::Future, time::Duration};

use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};
use tracing::{info, warn};

use self::{
    cleanup::{recover, sweep, sweep_inspections_later},
    environment::{Deadlines, Environment},
    error::AppError,
    ownership::{EngineOwnership, lock_state_dir},
    reload::Reloader,
    services::{Services, build},
    span_export::SpanExport,
    start_check::log_failures,
    watchdog::Watchdog,
};
use crate::{
    admin::server::Listeners,
    concurrency::blocking::blocking,
    config::{live::LiveSettings, settings::Settings},
    host::{file, heap, orphans},
    model::network::NetworkMode,
    rpc::{
        cri_socket::{CriSocket, Opened},
        server::serve,
    },
    store::handle::Store,
    streaming::server::Endpoint,
};

/// Serves the CRI with `settings` until `stop` resolves or an error occurs, then waits up to 8 s for operations.
///
/// Docker need not run yet: the socket answers while dockbridge waits for Docker.
pub async fn run(
    settings: Settings,
    environment: Environment,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), AppError> {
    may_connect(&environment.missing, settings.network)?;
    let checked = log_failures(settings.clone(), environment.locks.clone());
    let _checking = AbortOnDropHandle::new(tokio::spawn(checked));
    run_within(settings, environment, Deadlines::default(), stop).await
}

/// The same as [`run`], with other deadlines and without the checks of capabilities and of the host, for tests.
pub async fn run_within(
    settings: Settings,
    environment: Environment,
    deadlines: Deadlines,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), AppError> {
    let Environment { log, systemd, spans, locks, inherited, source, values, hangups, .. } =
        environment;
    let live = LiveSettings::new(settings.clone());
    let (reloads, requests) = mpsc::channel(1);
    let cri = CriSocket::choose(&settings.listen, inherited)?;
    let path = cri.path().to_owned();
    let span_export = SpanExport::start(spans, &settings.tracing);
    let _lock = lock_state_dir(&settings.state_dir, &path).await?;
    // Ends CNI plugins of the previous process before the first CNI DEL, because an old ADD could still run.
    orphans::end_all().await;
    file::ensure_directory(&settings.run_dir, RUN_MODE)
        .map_err(|source| AppError::RunDir { run_dir: settings.run_dir.clone(), source })?;
    let mut engines = EngineOwnership::new(path.clone(), settings.docker.clone(), locks);
    let tracker = TaskTracker::new();
    let stopping = CancellationToken::new();
    let endpoint = Endpoint::bind(settings.streaming_addr)?;
    let listeners = Listeners::bind(&settings.run_dir, settings.metrics_addr).await?;
    let reloader = Reloader::new((source, values), (live.clone(), log), span_export.clone());
    let (work, sweep_interval, client_timeouts) =
        ((&tracker, &stopping), deadlines.sweep_interval, deadlines.client_timeouts);
    let services = build(&live, deadlines, work, (&engines, endpoint.address)).await?;
    let context = admin::context(&services, (&reloader.metrics, reloads));
    let _reloading = AbortOnDropHandle::new(tokio::spawn(reloader.run(hangups, requests)));
    let mut admin = AbortOnDropHandle::new(tokio::spawn(listeners.serve(context)));
    let _recovering = AbortOnDropHandle::new(tokio::spawn(recover(
        services.sandboxes.clone(),
        services.node.clone(),
        services.commands.clone(),
        tracker.clone(),
        sweep_interval,
    )));
    first_list(&services.node.store, &mut engines).await?;
    let Opened { listeners, own } = cri.open().await?;
    info!(
        listen = %path.display(),
        docker = %settings.docker.display(),
        streaming = %endpoint.address,
        version = env!("CARGO_PKG_VERSION"),
        "dockbridge serves the container runtime interface"
    );
    let Services { sandboxes, runtime, image, node, limits, .. } = services;
    let store = node.store.clone();
    let overdue = AbortOnDropHandle::new(tokio::spawn(overdue(stopping.clone())));
    let streams = endpoint.serve(runtime.streaming.clone(), tracker.clone(), stopping.clone());
    tracker.spawn(streams);
    let watchdog = Watchdog::start(systemd, path, store.clone()).map_err(AppError::Watchdog)?;
    let stopped = stopping.clone();
    let serving = serve(listeners, runtime, image, client_timeouts, async move {
        stop.await;
        watchdog.stop();
        stopped.cancel();
    });
    let served = tokio::select! {
        served = serving => served.map_err(AppError::from),
        () = store.ended() => Err(AppError::StoreStopped),
        error = engines.failed() => Err(error),
        never = sweep(&node, &limits, &sandboxes, sweep_interval) => match never {},
        never = node.image_files.restore_volumes() => match never {},
        never = sweep_inspections_later(&node) => match never {},
        never = trim_heap() => match never {},
    };
    // The CRI server may have ended without a stop signal.
    stopping.cancel();
    drop(own);
    drain(&tracker, overdue).await;
    let checkpoints = timeout(CHECKPOINTS_TIMEOUT, sandboxes.restore_checkpoints());
    // If a deleted checkpoint file is not written again in time, the next start of dockbridge writes a new one.
    let _ = tokio::join!(checkpoints, node.logs.close(), span_export.stop());
    admin.abort();
    // When the admin server ends, it removes its socket file.
    let _ = (&mut admin).await;
    info!("dockbridge has stopped; pods keep running");
    served
}

/// Waits up to [`FIRST_LIST_TIMEOUT`] for Docker's list of containers, without which many CRI calls fail.
async fn first_list(store: &Store, engines: &mut EngineOwnership) -> Result<(), AppError> {
    tokio::select! {
        listed = store.synced(FIRST_LIST_TIMEOUT) => if listed.is_err() {
            warn!(
                "Docker has not listed its containers yet; calls that need the list fail with UNAVAILABLE until it has"
            );
        },
        error = engines.failed() => return Err(error),
    }
    Ok(())
}

/// Resolves when work in progress must not delay the shutdown any longer.
async fn overdue(stopping: CancellationToken) {
    stopping.cancelled().await;
    sleep(DRAIN_TIMEOUT).await;
}

async fn drain(tracker: &TaskTracker, overdue: AbortOnDropHandle<()>) {
    tracker.close();
    tokio::select! {
        () = tracker.wait() => {}
        _ = overdue => {
            warn!(tasks = tracker.len(), "shutting down before all running operations have ended");
        }
    }
}

/// If capabilities are `missing`, fails with CNI, and with `--network docker` only logs what can fail.
fn may_connect(missing: &[&str], network: NetworkMode) -> Result<(), AppError> {
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(" and ");
    if network == NetworkMode::Cni {
        return Err(AppError::MissingCapabilities { missing });
    }
    warn!(
        missing,
        "missing capabilities to mount, to enter namespaces or to change networks: port-forward and image \
         volumes can fail, and pods with CNI cannot be taken over"
    );
    Ok(())
}

/// Returns free heap memory to the kernel, because the lists and statistics of a full node are large.
async fn trim_heap() -> Infallible {
    loop {
        sleep(TRIM_EVERY).await;
        blocking(heap::trim).await;
    }
}

const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(2);
const TRIM_EVERY: Duration = Duration::from_secs(30);
/// All users may enter a new run directory. The mode of each socket in the directory says who may connect.
const RUN_MODE: u32 = 0o755;
/// How long operations may take after the stop signal. The next start cleans up after interrupted operations.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(8);
/// How long it may take at the end to write deleted checkpoint files again.
const CHECKPOINTS_TIMEOUT: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests;
