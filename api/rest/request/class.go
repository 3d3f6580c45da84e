package request

import (
	"slices"

	"github.com/gpuaas/gpuaas/api/openapi"
)

// Class is a class of requests that share a bucket.
type Class uint8

// The classes. Reads and writes are separate, so that the reads of an actor cannot use up the limit
// of its writes.
const (
	ClassNone      Class = iota // probes: a rejected monitor would report the service as down
	ClassRead                   //
	ClassWrite                  //
	ClassTenant                 // all requests of the actors of a tenant
	ClassAnonymous              // failed attempts, by address
	ClassSignIn                 // by address
	ClassAccount                // sign-ins as one account, from all addresses
	ClassToken                  // requests that issue tokens
	ClassEnrolment              //
	ClassPayment                //
	ClassPlan                   // requests that cost as much as a commit
	ClassStorage                // requests of a tenant for its files: a program sends one for each file
	Classes
)

var classNames = [Classes]string{"none", "read", "write", "tenant", "anonymous", "sign-in", "account", "token", "enrolment", "payment", "plan", "storage"}

func (c Class) String() string { return classNames[c] }

// Strict returns whether an additional try is of use to an attacker. These classes query the database
// each time, and are rejected without it.
func (c Class) Strict() bool {
	switch c {
	case ClassSignIn, ClassAccount, ClassToken, ClassEnrolment, ClassPayment:
		return true
	case ClassNone, ClassRead, ClassWrite, ClassTenant, ClassAnonymous, ClassPlan, ClassStorage, Classes:
	}
	return false
}

// classOf returns the class that the contract names with x-limit. Without it, the method decides, and
// a write without authentication is a sign-in.
func classOf(op *Operation, o openapi.Operation) (class Class, known bool) {
	if word, ok := o.Extensions["x-limit"].(string); ok {
		i := slices.Index(classNames[:], word)
		return Class(max(i, 0)), i >= 0 //nolint:gosec // one of a few
	}
	switch {
	case op.Public && op.Write:
		return ClassSignIn, true
	case op.Public:
		return ClassNone, true
	case op.Write:
		return ClassWrite, true
	}
	return ClassRead, true
}
