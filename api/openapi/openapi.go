// Package openapi holds the contract of the HTTP API. The YAML is the source:
// the server, the client, the checks and the reference are all made from it.
package openapi

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
)

// YAML is the contract as it is written.
//
//go:embed openapi.yaml
var YAML []byte

// Document reads the contract with its references resolved.
func Document() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(YAML)
	if err != nil {
		return nil, fmt.Errorf("reading the contract: %w", err)
	}
	return doc, nil
}

// Operation is one call of the contract with the place where it stands.
type Operation struct {
	Method, Path string
	*openapi3.Operation
}

// Operations lists the calls in the same order each time.
func Operations(doc *openapi3.T) []Operation {
	var all []Operation
	for _, path := range doc.Paths.InMatchingOrder() {
		item := doc.Paths.Value(path)
		for _, method := range slices.Sorted(maps.Keys(item.Operations())) {
			all = append(all, Operation{method, path, item.GetOperation(method)})
		}
	}
	return all
}
