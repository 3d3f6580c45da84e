// Package oapi is what the contract in api/openapi looks like in Go: types, the
// strict Gin server and the client. It is generated; nothing in it is edited by
// hand, and it decides nothing.
package oapi

//go:generate go tool oapi-codegen -config config.yaml ../openapi/openapi.yaml
