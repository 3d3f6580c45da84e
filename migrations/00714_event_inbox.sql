-- +goose Up
-- event: no consumer has ever used the table, and no role had a right to it.
DROP TABLE inbox;
