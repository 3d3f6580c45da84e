// Package ids defines a type for each kind of identifier, so that a node's id cannot be passed as
// an allocation's. All are UUIDv7 and sort by time.
package ids

import (
	"fmt"

	"github.com/google/uuid"
)

// The embedded UUID brings text, JSON and SQL forms to each type.
type (
	// Tenant owns: balance, projects, people.
	Tenant struct{ uuid.UUID }
	// Project scopes what a tenant uses.
	Project struct{ uuid.UUID }
	// User is a person who acts.
	User struct{ uuid.UUID }
	// ServiceAccount is a program that acts for a project.
	ServiceAccount struct{ uuid.UUID }
	// Credential is one secret of a service account.
	Credential struct{ uuid.UUID }
	// APIKey is a person's key for programs.
	APIKey struct{ uuid.UUID }
	// Session is one sign-in of a person.
	Session struct{ uuid.UUID }
	// Invitation identifies the invitation of a user to a tenant.
	Invitation struct{ uuid.UUID }
	// SSHKey is a registered public key.
	SSHKey struct{ uuid.UUID }
	// Node identifies a node. It equals the uid of the node's desired object.
	Node struct{ uuid.UUID }
	// Slot identifies a sellable unit of a node.
	Slot struct{ uuid.UUID }
	// Allocation is the promise of slots to a project.
	Allocation struct{ uuid.UUID }
	// Task identifies a task in a node's mailbox.
	Task struct{ uuid.UUID }
	// Object is the uid of a desired object of any kind.
	Object struct{ uuid.UUID }
	// Plan is one answer of the planner that was not empty.
	Plan struct{ uuid.UUID }
	// Event is one fact of the outbox.
	Event struct{ uuid.UUID }
	// Webhook is a webhook endpoint of a tenant.
	Webhook struct{ uuid.UUID }
	// PaymentSession is one checkout.
	PaymentSession struct{ uuid.UUID }
	// Mandate is the permission to charge a stored payment method.
	Mandate struct{ uuid.UUID }
	// Refund gives money of one payment or charge back.
	Refund struct{ uuid.UUID }
)

type id interface{ ~struct{ uuid.UUID } }

// New makes a fresh id. It panics only when the system has no randomness.
func New[T id]() T {
	return T(struct{ uuid.UUID }{uuid.Must(uuid.NewV7())})
}

// Parse reads the canonical text form.
func Parse[T id](s string) (T, error) {
	u, err := uuid.Parse(s)
	if err != nil {
		return T{}, fmt.Errorf("%q is not a UUID", s)
	}
	return T(struct{ uuid.UUID }{u}), nil
}

// From gives a UUID its type.
func From[T id](u uuid.UUID) T { return T(struct{ uuid.UUID }{u}) }
