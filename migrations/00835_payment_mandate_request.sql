-- +goose Up

-- Concurrent requests with one idempotency key have one mandate.
ALTER TABLE payment_mandates ADD COLUMN request_hash bytea; -- hash of the idempotency key, while the mandate is pending
