// Package openapi contains the contract of the HTTP API. The yamlText file is the source of the server,
// the client, the checks and the reference.
package openapi

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
)

//go:generate go run ./gen

// yamlText is the contract as it is written.
//
//go:embed openapi.yaml
var yamlText []byte

// Document reads the contract with its references resolved.
func Document() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(yamlText)
	if err != nil {
		return nil, fmt.Errorf("reading the contract: %w", err)
	}
	return doc, nil
}

// Operation is one operation of the contract with its method and path.
type Operation struct {
	Method, Path string
	*openapi3.Operation
}

// Operations returns all operations in a stable order.
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
