-- +goose Up
-- allocation: the rules for logins in the last task of an allocation, so that a changed policy reaches it.

ALTER TABLE allocations ADD COLUMN access_rules text NOT NULL DEFAULT ''; -- source/forwarding; empty: none were sent
