//! Opens the rooms of a node in order and joins them: journal, sandbox, catalogs, engine, doors.
//!
//! Owns the order of start and stop. It must not know what a command line says.

use std::collections::HashMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::Snapshot;
use doors::mqtt::embedded::EmbeddedBroker;
use doors::mqtt::mesh::{Collision, Mesh};
use doors::mqtt::settings::{BrokerAddress, Login, MeshSettings};
use doors::ops::server::{Ops, OpsSettings};
use engine::{Engine, PlaceLimits, Ports, Settings};
use job::admission::Memory;
use job::clock::Clock;
use job::executor::{Executor, SandboxSettings};
use job::ids::AgentId;
use job::jobs::Jobs;
use job::status::Board;
use job::store::{JobStore, Outbox};
use metrics_exporter_prometheus::PrometheusBuilder;
use sandbox::Sandbox;
use store::SqliteJournal;
use supply::config::{Broker, SyncMode};
use supply::{Config, Deployment, Inputs, Larder};
use wire::mqtt::topics::Root;

use crate::clock::SystemClock;
use crate::exit::Failure;
use crate::reload::{self, Rooms};
use crate::shipped;

/// Time between two rounds of the housekeeper, which forgets finished jobs.
const HOUSEKEEPING: Duration = Duration::from_secs(60);
/// Longest time the outbox may take to empty at a stop, beyond the grace time.
const DELIVERY_GRACE: Duration = Duration::from_secs(10);
/// Mode of the data folder, where it has to be made.
const PRIVATE: u32 = 0o700;
/// How long no job may live before a node that retires believes that nothing more comes.
const RETIRE_QUIET: Duration = Duration::from_secs(1);
/// Bytes in a mebibyte.
const MIB: u64 = 1024 * 1024;

/// A node that is up.
pub(crate) struct Node {
    pub(crate) config: Config,
    pub(crate) data_dir: PathBuf,
    pub(crate) engine: Engine,
    pub(crate) recovered: usize,
    store: Arc<dyn JobStore>,
    mesh: Arc<Mesh>,
    ops: Option<Ops>,
    broker: Option<EmbeddedBroker>,
    housekeeper: tokio::task::JoinHandle<()>,
    /// Reads catalogs and settings again while the node runs.
    reloader: tokio::task::JoinHandle<()>,
    /// Guests run here.
    _guests: GuestThreads,
}

/// The threads guests run on. Dropped without waiting for a guest, on whatever thread that may be.
struct GuestThreads(Option<tokio::runtime::Runtime>);

impl GuestThreads {
    fn start() -> Result<(Self, tokio::runtime::Handle), Failure> {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let runtime = sandbox::guest_runtime(threads)
            .map_err(|error| Failure::failed(format!("threads for guests cannot be started: {error}")))?;
        let handle = runtime.handle().clone();
        Ok((Self(Some(runtime)), handle))
    }
}

impl Drop for GuestThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Node {
    /// Opens everything. With `retire`, what the journal holds ends with reason shutdown instead of running.
    pub(crate) async fn start(inputs: Inputs, config: Config, retire: bool) -> Result<Self, Failure> {
        let data_dir = data_dir(&config)?;
        let board = Board::default();
        let metrics = PrometheusBuilder::new()
            .install_recorder()
            .map_err(|error| Failure::failed(format!("metrics cannot be set up: {error}")))?;
        doors::mqtt::metrics::describe();

        let journal = open_journal(&config, &data_dir)?;
        let (guests, workers) = GuestThreads::start()?;
        let sandbox = open_sandbox(&config, &data_dir)?;
        let larder = open_larder(inputs, &config, &sandbox, &board).await?;
        let snapshots: Vec<Arc<Snapshot>> = larder.snapshots().cloned().collect();
        let deployment = Arc::new(Deployment::new(&config, supply::process_environ()));

        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let settings = mesh_settings(&config, &deployment).await?;
        let profiles = snapshots.iter().map(|snapshot| reload::profile(&config, snapshot)).collect();
        let mesh = Arc::new(Mesh::new(settings, profiles, clock.clone(), board.clone()));
        let store: Arc<dyn JobStore> = journal.clone();
        let ports = Ports {
            store: store.clone(),
            courier: mesh.courier(),
            variables: deployment.clone(),
            clock: clock.clone(),
            board: board.clone(),
            workers,
        };
        let engine = Engine::new(engine_settings(&config), ports, snapshots);
        journal.attach(engine.courier());
        if retire {
            engine.retire();
        }
        let recovered = engine
            .recover()
            .await
            .map_err(|error| Failure::failed(format!("the journal in {} cannot be read: {error}", data_dir.display())))?;

        let ops = open_ops(&config, metrics, &board).await?;
        let broker = open_broker(&config).await?;
        let jobs: Arc<dyn Jobs> = Arc::new(engine.clone());
        let outbox: Arc<dyn Outbox> = journal;
        mesh.start(&jobs, &outbox);
        let rooms = Rooms { engine: engine.clone(), mesh: mesh.clone(), deployment, board: board.clone() };
        let reloader = tokio::spawn(reload::keep_fresh(larder, rooms, config.clone()));
        let housekeeper = tokio::spawn(housekeeping(config.clone(), engine.clone(), store.clone(), clock, sandbox));
        Ok(Self { config, data_dir, engine, recovered, store, mesh, ops, broker, housekeeper, reloader, _guests: guests })
    }

    /// Waits until every agent is connected, or for `patience`.
    pub(crate) async fn online(&self, patience: Duration) -> bool {
        let all = self.config.agents.iter().filter_map(|agent| self.mesh.connection(&agent.id)).map(|mut state| async move {
            state.wait_for(|state| matches!(state, doors::mqtt::mesh::Connection::Online)).await.is_ok()
        });
        tokio::time::timeout(patience, futures::future::join_all(all)).await.is_ok_and(|all| all.into_iter().all(|up| up))
    }

    /// Waits until no job has lived for a while: what waited at the broker has come in and has ended.
    pub(crate) async fn quiet(&self) {
        let mut since = Instant::now();
        while since.elapsed() < RETIRE_QUIET {
            tokio::time::sleep(RETIRE_QUIET / 10).await;
            if self.engine.counts().2 > 0 {
                since = Instant::now();
            }
        }
    }

    /// Resolves when every agent has left because another instance holds its client id.
    pub(crate) async fn collided(&self) -> Collision {
        self.mesh.all_collided().await
    }

    /// Stops politely (G1-42): no new work, the grace time for running jobs, deliver, clear the registry, disconnect.
    pub(crate) async fn stop(mut self) -> HashMap<AgentId, doors::mqtt::mesh::Closed> {
        let grace = self.config.node.grace;
        tracing::info!(grace_s = grace.as_secs_f64(), "stopping: taking no more work, waiting for running jobs");
        self.reloader.abort();
        self.mesh.drain();
        let report = self.engine.stop(grace).await;
        if !report.in_time {
            tracing::info!("the grace time is over; what may run again stays in the journal");
        }
        let closed = self.mesh.close(tokio::time::Instant::now() + DELIVERY_GRACE).await;
        self.housekeeper.abort();
        self.store.close().await;
        if let Some(ops) = self.ops.take() {
            ops.stop().await;
        }
        if let Some(broker) = self.broker.take() {
            broker.stop().await;
        }
        tracing::info!("stopped");
        closed
    }
}

fn data_dir(config: &Config) -> Result<PathBuf, Failure> {
    let environ = supply::process_environ();
    let dir = supply::data_dir::resolve(config.node.data_dir.as_deref(), &environ);
    let dir = dir.map_err(|error| Failure::usage(error.to_string()))?;
    let made = std::fs::DirBuilder::new().recursive(true).mode(PRIVATE).create(&dir);
    made.map_err(|error| {
        Failure::usage(format!("the data folder {} cannot be made: {error}", dir.display()))
            .mend("set node.data_dir (AMP_NODE__DATA_DIR) to a folder this user may write")
    })?;
    Ok(dir)
}

fn open_journal(config: &Config, data_dir: &std::path::Path) -> Result<Arc<SqliteJournal>, Failure> {
    let sync = match config.journal.sync {
        SyncMode::Full => store::Sync::Full,
        SyncMode::Os => store::Sync::Os,
    };
    let journal = SqliteJournal::open(&data_dir.join("journal.db"), store::Settings { sync, ..store::Settings::default() });
    journal.map(Arc::new).map_err(|error| {
        Failure::usage(error.to_string())
            .mend("free space on its disk or mend its permissions, or set node.data_dir (AMP_NODE__DATA_DIR) to another folder")
    })
}

fn open_sandbox(config: &Config, data_dir: &std::path::Path) -> Result<Sandbox, Failure> {
    let settings = SandboxSettings {
        cache_dir: data_dir.join("compiled"),
        max_live: config.limits.max_live,
        memory_bytes_max: config.limits.max.to_limits().memory_bytes,
    };
    Sandbox::new(&settings).map_err(|error| Failure::usage(error.to_string()))
}

/// Reads every agent's catalog. Bad entries degrade health and are named in the log; a folder that cannot be read ends the
/// start, since the node would do nothing.
async fn open_larder(inputs: Inputs, config: &Config, sandbox: &Sandbox, board: &Board) -> Result<Larder, Failure> {
    let executor: Arc<dyn Executor> = Arc::new(sandbox.clone());
    let larder = Larder::open(inputs, config.clone(), &shipped::builtins(), executor)
        .await
        .map_err(|error| Failure::usage(error.to_string()))?;
    for snapshot in larder.snapshots() {
        for fault in &snapshot.faults {
            tracing::error!(agent = %snapshot.agent, "{fault}");
        }
        reload::show_faults(board, snapshot);
    }
    Ok(larder)
}

/// How many jobs may be where.
pub(crate) fn places_of(config: &Config) -> PlaceLimits {
    PlaceLimits {
        max_running: config.limits.max_running,
        max_live: config.limits.max_live,
        max_queued: config.limits.max_queued,
        max_depth: config.mesh.max_depth,
    }
}

fn engine_settings(config: &Config) -> Settings {
    let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    Settings {
        places: places_of(config),
        memory: Memory { remember_ms: ms(config.journal.remember), resend_window_ms: ms(config.mesh.resend_window) },
        sync_full: config.journal.sync == SyncMode::Full,
    }
}

/// The broker's address as a client dials it.
pub(crate) fn broker_address(config: &Config) -> BrokerAddress {
    match &config.mesh.broker {
        Broker::Embedded { listen } => BrokerAddress { host: listen.ip().to_string(), port: listen.port() },
        Broker::External { host, port } => BrokerAddress { host: host.clone(), port: *port },
    }
}

/// The login for the broker, its variables resolved now.
pub(crate) async fn login(config: &Config, deployment: &Deployment) -> Result<Option<Login>, Failure> {
    let Some(username) = &config.mesh.username else { return Ok(None) };
    let mut texts = Vec::new();
    for (key, text) in [("mesh.username", Some(username)), ("mesh.password", config.mesh.password.as_ref())] {
        let Some(text) = text else {
            texts.push(String::new());
            continue;
        };
        let filled = deployment.fill(text).await.map_err(|error| {
            Failure::usage(format!("{key}: {error}")).mend(
                "set it in [vars], or in the environment; a name that looks secret counts only if environment.allow lists it",
            )
        });
        texts.push(filled?);
    }
    let password = texts.pop().unwrap_or_default();
    Ok(texts.pop().map(|username| Login { username, password }))
}

/// `mesh.max_packet_mb` in bytes.
pub(crate) fn packet_bytes(config: &Config) -> u32 {
    u32::try_from(u64::from(config.mesh.max_packet_mb) * MIB).unwrap_or(u32::MAX)
}

/// The mesh root, checked.
pub(crate) fn root(config: &Config) -> Result<Root, Failure> {
    Root::parse(&config.mesh.root).map_err(|error| Failure::usage(format!("mesh.root: {error}")))
}

async fn mesh_settings(config: &Config, deployment: &Deployment) -> Result<MeshSettings, Failure> {
    Ok(MeshSettings {
        broker: broker_address(config),
        login: login(config, deployment).await?,
        root: root(config)?,
        payload_bytes_max: usize::try_from(config.mesh.max_payload_kb).unwrap_or(usize::MAX).saturating_mul(1024),
        packet_bytes_max: packet_bytes(config),
        instance: ulid::Ulid::new().to_string().to_lowercase(),
    })
}

async fn open_ops(
    config: &Config,
    metrics: metrics_exporter_prometheus::PrometheusHandle,
    board: &Board,
) -> Result<Option<Ops>, Failure> {
    let Some(listen) = config.ops_listen else { return Ok(None) };
    let settings = OpsSettings { listen, token: None };
    Ops::start(settings, board.clone(), Some(metrics)).await.map(Some).map_err(|error| Failure::usage(error.to_string()))
}

async fn open_broker(config: &Config) -> Result<Option<EmbeddedBroker>, Failure> {
    let Broker::Embedded { listen } = config.mesh.broker else { return Ok(None) };
    let packet_bytes_max = packet_bytes(config);
    let started = EmbeddedBroker::start(listen, usize::try_from(packet_bytes_max).unwrap_or(usize::MAX)).await;
    started.map(Some).map_err(|error| {
        Failure::usage(error.to_string())
            .mend("AMP_MESH__EMBEDDED_LISTEN=127.0.0.1:2883 moves it; AMP_MESH__BROKER=mqtt://host:1883 uses a broker that runs")
    })
}

/// Forgets finished jobs by age and size (G1-17), and keeps the gauges true.
async fn housekeeping(config: Config, engine: Engine, store: Arc<dyn JobStore>, clock: Arc<dyn Clock>, sandbox: Sandbox) {
    let remember_ms = i64::try_from(config.journal.remember.as_millis()).unwrap_or(i64::MAX);
    let max_bytes = config.journal.remember_max_mb.saturating_mul(MIB);
    let mut rounds = tokio::time::interval(Duration::from_secs(1));
    let mut forgotten = Instant::now();
    loop {
        rounds.tick().await;
        let (running, waiting, live) = engine.counts();
        metrics::gauge!("amp_engine_jobs_running").set(running);
        metrics::gauge!("amp_engine_jobs_queued").set(waiting);
        metrics::gauge!("amp_engine_jobs_live").set(u32::try_from(live).unwrap_or(u32::MAX));
        metrics::gauge!("amp_sandbox_instances").set(u32::try_from(sandbox.live()).unwrap_or(u32::MAX));
        if forgotten.elapsed() < HOUSEKEEPING {
            continue;
        }
        forgotten = Instant::now();
        let now = clock.now();
        if let Err(error) = store.forget(now, now.plus_ms(remember_ms.saturating_neg()), max_bytes).await {
            tracing::warn!(%error, "finished jobs could not be forgotten; trying again in a minute");
        }
    }
}
