"""Settings about Celery's own machinery: refused with the reason why they mean nothing here, not as unknown."""

from __future__ import annotations

NO_BROKER = "there is no broker to connect to: leave it out"
WITH_THEIR_JOBS = "results are kept with their jobs, in the store: leave it out"
NO_EVENTS = "workers and jobs are in the store, and nothing is sent between workers: leave it out"
SCHEDULES = "schedules are kept in the store; there is no beat process: leave it out"
LOGS = "have your module set up logging, or set STANDFAST_LOG_LEVEL and STANDFAST_LOG: leave it out"
OWN_WORKER = "a worker of standfast needs none of it: leave it out; see `standfast worker --help`"
SIGNED = "the store's own rights say who may write to it: leave it out"

OF_FAMILIES = {
    **dict.fromkeys(("arangodb", "azureblockblob", "cache", "cassandra", "cosmosdbsql", "couchbase"), WITH_THEIR_JOBS),
    **dict.fromkeys(("database", "elasticsearch", "gcs", "mongodb", "redis", "s3"), WITH_THEIR_JOBS),
    **dict.fromkeys(("control", "event"), NO_EVENTS),
    "security": SIGNED,
}
"""The reasons, by prefix of the name."""
_NAMES = {
    NO_BROKER: """
        broker_channel_error_retry broker_connection_max_retries broker_connection_timeout broker_failover_strategy
        broker_heartbeat broker_heartbeat_checkrate broker_host broker_login_method
        broker_native_delayed_delivery_queue_type broker_password broker_pool_acquire_timeout broker_pool_limit
        broker_port broker_read_url broker_transport broker_use_ssl broker_user broker_vhost broker_write_url
        task_create_missing_queue_exchange_type task_create_missing_queue_type task_default_delivery_mode
        task_default_exchange_type task_default_queue_type task_protocol task_publish_retry_policy
        task_queue_max_priority worker_detect_quorum_queues worker_direct
    """,
    WITH_THEIR_JOBS: """
        result_backend_always_retry result_backend_base_sleep_between_retries_ms result_backend_max_retries
        result_backend_max_sleep_between_retries_ms result_backend_transport_options result_cache_max
        result_chord_expires result_chord_join_timeout result_chord_retry_interval result_compression result_exchange
        result_exchange_type result_failure_expires task_remote_tracebacks task_repr_maxlevels
    """,
    NO_EVENTS: "worker_enable_remote_control",
    SCHEDULES: """
        beat_cron_starting_deadline beat_enable_remote_control beat_max_loop_interval beat_remote_control_max_tick_age
        beat_sync_every
    """,
    LOGS: """
        worker_log_color worker_log_datefmt worker_log_format worker_redirect_stdouts worker_redirect_stdouts_level
        worker_task_log_datefmt worker_task_log_format
    """,
    OWN_WORKER: """
        task_acks_on_failure task_acks_on_timeout task_allow_error_cb_on_chord_header task_inherit_parent_priority
        task_retry_on_worker_lost worker_agent worker_autoscaler worker_cancel_long_running_tasks_on_connection_loss
        worker_consumer worker_deduplicate_successful_tasks worker_disable_prefetch
        worker_enable_prefetch_count_reduction worker_enable_soft_shutdown_on_idle worker_eta_task_limit
        worker_lost_wait worker_pool_putlocks worker_pool_restarts worker_pool_start_method worker_proc_alive_timeout
        worker_soft_shutdown_timeout worker_state_db worker_timer worker_timer_precision
    """,
}
BY_NAME = {name: why for why, names in _NAMES.items() for name in names.split()}
"""The reasons, by the whole name."""


def why_left_out(name: str) -> str | None:
    """Return why a setting of Celery means nothing here; None if it is not one of these."""
    return BY_NAME.get(name) or OF_FAMILIES.get(name.partition("_")[0])
