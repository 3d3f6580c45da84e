package cli

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/desired"
)

// hostile returns findings with texts that an attacker may choose.
func hostile() output.FindingsReport {
	r := output.FindingsReport{Files: []string{"a.yaml", "b b.yaml"}}
	for i, text := range []string{"plain", "a\n::error::forged", "100%,x:y", "<b>&\"'|`", "\x00\x1b[2J\u202e", "\ufffe", "é😀"} {
		r.Findings = append(r.Findings, desired.Finding{
			Code: desired.CodeInvalidValue, Path: "b b.yaml", Line: i, Column: 1, Object: "SKU/" + text, Field: "spec.x", Message: text, Expected: "y",
		})
	}
	return r
}

// The objects of the SARIF 2.1.0 schema that are written, as it defines them: what
// is required, and nothing it does not know.
const sarifShape = `{
  "type": "object",
  "required": ["version", "runs"],
  "additionalProperties": false,
  "properties": {
    "$schema": {"type": "string", "format": "uri"},
    "version": {"enum": ["2.1.0"]},
    "runs": {
      "type": "array",
      "items": {
        "type": "object",
        "required": ["tool"],
        "additionalProperties": false,
        "properties": {
          "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
          "tool": {
            "type": "object",
            "required": ["driver"],
            "additionalProperties": false,
            "properties": {
              "driver": {
                "type": "object",
                "required": ["name"],
                "additionalProperties": false,
                "properties": {
                  "name": {"type": "string"},
                  "version": {"type": "string"},
                  "informationUri": {"type": "string", "format": "uri"},
                  "rules": {
                    "type": "array",
                    "uniqueItems": true,
                    "items": {
                      "type": "object",
                      "required": ["id"],
                      "additionalProperties": false,
                      "properties": {
                        "id": {"type": "string"},
                        "shortDescription": {"$ref": "#/$defs/text"},
                        "help": {"$ref": "#/$defs/text"},
                        "helpUri": {"type": "string", "format": "uri"}
                      }
                    }
                  }
                }
              }
            }
          },
          "results": {
            "type": "array",
            "items": {
              "type": "object",
              "required": ["message"],
              "additionalProperties": false,
              "properties": {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": 0},
                "level": {"enum": ["none", "note", "warning", "error"]},
                "message": {"$ref": "#/$defs/text"},
                "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
                "locations": {
                  "type": "array",
                  "items": {
                    "type": "object",
                    "required": [],
                    "additionalProperties": false,
                    "properties": {
                      "physicalLocation": {
                        "type": "object",
                        "required": ["artifactLocation"],
                        "additionalProperties": false,
                        "properties": {
                          "artifactLocation": {
                            "type": "object",
                            "required": [],
                            "additionalProperties": false,
                            "properties": {"uri": {"type": "string", "format": "uri-reference"}}
                          },
                          "region": {
                            "type": "object",
                            "required": [],
                            "additionalProperties": false,
                            "properties": {"startLine": {"type": "integer", "minimum": 1}, "startColumn": {"type": "integer", "minimum": 1}}
                          }
                        }
                      }
                    }
                  }
                }
              }
            }
          }
        }
      }
    }
  },
  "$defs": {"text": {"type": "object", "required": ["text"], "additionalProperties": false, "properties": {"text": {"type": "string"}}}}
}`

// The properties that GitLab demands of a Code Quality report.
const gitlabShape = `{
  "type": "array",
  "items": {
    "type": "object",
    "required": ["description", "check_name", "fingerprint", "severity", "location"],
    "properties": {
      "description": {"type": "string"},
      "check_name": {"type": "string"},
      "fingerprint": {"type": "string", "minLength": 1},
      "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
      "location": {
        "type": "object",
        "required": ["path", "lines"],
        "properties": {
          "path": {"type": "string", "pattern": "^[^/.]"},
          "lines": {"type": "object", "required": ["begin"], "properties": {"begin": {"type": "integer", "minimum": 1}}}
        }
      }
    }
  }
}`

func TestReportsHaveTheirShape(t *testing.T) {
	t.Parallel()
	for name, shape := range map[string]string{"sarif": sarifShape, "gitlab": gitlabShape} {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(shape))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		if err := c.AddResource(name, document); err != nil {
			t.Fatal(err)
		}
		schema, err := c.Compile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []output.FindingsReport{{}, hostile()} {
			var out bytes.Buffer
			if err := output.Reports[name](&out, r); err != nil {
				t.Fatal(err)
			}
			v, err := jsonschema.UnmarshalJSON(&out)
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(v); err != nil {
				t.Errorf("%s with %d findings: %v", name, len(r.Findings), err)
			}
		}
	}
}

func TestGitLabFingerprintsAreUnique(t *testing.T) {
	t.Parallel()
	r := hostile()
	r.Findings = append(r.Findings, r.Findings...)
	var out bytes.Buffer
	if err := output.WriteGitLab(&out, r); err != nil {
		t.Fatal(err)
	}
	var issues []struct{ Fingerprint string }
	if err := json.Unmarshal(out.Bytes(), &issues); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, i := range issues {
		if seen[i.Fingerprint] {
			t.Errorf("%s is there twice", i.Fingerprint)
		}
		seen[i.Fingerprint] = true
	}
}

func TestJUnitIsXML(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := output.WriteJUnit(&out, hostile()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Name    string    `xml:"name,attr"`
			Failure *struct{} `xml:"failure"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Tests != 8 || got.Failures != 7 || len(got.Cases) != 8 || got.Cases[7].Name != "a.yaml" || got.Cases[7].Failure != nil {
		t.Errorf("%+v", got)
	}
}

// What an author writes must not become a command of the runner, nor a table.
func TestGitHubCommandsCannotBeForged(t *testing.T) {
	t.Parallel()
	r := hostile()
	for i := range 20 {
		r.Findings = append(r.Findings, desired.Finding{Path: "x", Line: i, Message: fmt.Sprintf("n\n::set-output name=a::%d", i)})
	}
	var out bytes.Buffer
	if err := output.WriteGitHub(&out, r); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(r.Findings) {
		t.Fatalf("%d lines for %d findings", len(lines), len(r.Findings))
	}
	for i, line := range lines {
		if forged := strings.HasPrefix(line, "::") && !strings.HasPrefix(line, "::error file="); forged || strings.HasPrefix(line, "::") != (i < output.Inlined) {
			t.Errorf("line %d is %q", i, line)
		}
	}
	if output.TableCell("a|b\n<img>[x](y)@all") != "a&#124;b &lt;img&gt;&#91;x](y)&#64;all" {
		t.Error(output.TableCell("a|b\n<img>[x](y)@all"))
	}
}
