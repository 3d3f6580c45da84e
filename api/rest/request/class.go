package request

import (
	"slices"

	"github.com/gpuaas/gpuaas/api/openapi"
)

// Class of requests that share a bucket.
type Class uint8

// The classes. An actor's reads cannot use up what it may write.
const (
	ClassNone      Class = iota // probes: a monitor that is refused would call the service ill
	ClassRead                   //
	ClassWrite                  //
	ClassTenant                 // what all actors of a tenant ask together
	ClassAnonymous              // failed tries, by address
	ClassSignIn                 // by address
	ClassToken                  // minting tokens
	ClassEnrolment              //
	ClassPayment                //
	ClassPlan                   // what is as much work as a commit
	Classes
)

var classNames = [Classes]string{"none", "read", "write", "tenant", "anonymous", "sign-in", "token", "enrolment", "payment", "plan"}

func (c Class) String() string { return classNames[c] }

// Strict returns whether an additional try is of use to an attacker. These classes query the database
// each time, and are rejected without it.
func (c Class) Strict() bool {
	switch c {
	case ClassSignIn, ClassToken, ClassEnrolment, ClassPayment:
		return true
	case ClassNone, ClassRead, ClassWrite, ClassTenant, ClassAnonymous, ClassPlan, Classes:
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
