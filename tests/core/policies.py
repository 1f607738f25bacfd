"""The policy that the docs show, for the tests that need one."""

SAMPLE = """\
version: v1
dlq_rules:                       # first match wins; written with the death
  - match: {reason_code: max_attempts, class: transient}
    action: auto_replay
    max_replays: 2
    backoff: exponential_jitter  # 60 s doubling to 1 h; or fixed (10 s), none, or {base: 5, cap: 600}
  - match: {reason_code: schema_invalid}
    action: quarantine
    owner: integration-team
  - match: {reason_code: denied}
    action: require_approval
    approver_group: platform-governance
  - match: {reason_code: unknown_commit_state}
    action: manual_review
replay_rules:                    # asked afresh before every replay, as the original requester
  - match: {risk: high}
    decision: require_approval
    approver_group: platform-governance
  - match: {queue: "payments*"}
    decision: deny
    why: "payments are replayed by the ledger, not here"
  - match: {}
    decision: allow
"""
