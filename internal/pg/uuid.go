package pg

import (
	"context"
	"database/sql/driver"
	"encoding"
	"fmt"
	"reflect"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// pgx by default treats google's UUID, and every type that embeds it, as a driver.Valuer: it tries
// the binary form, creates an error, and sends text. For a thousand keys this was half of the time
// of a sweep's slice.
func speakUUID(_ context.Context, conn *pgx.Conn) error {
	element := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: uuidCodec{}}
	conn.TypeMap().RegisterType(element)
	conn.TypeMap().RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: &pgtype.ArrayCodec{ElementType: element}})
	return nil
}

type uuidCodec struct{ pgtype.UUIDCodec }

// embedded is implemented by uuid.UUID and every id that embeds one. NodeID distinguishes them from
// other values with a binary form.
type embedded interface {
	driver.Valuer
	encoding.BinaryMarshaler
	NodeID() []byte
}

func (c uuidCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	// A pointer may be nil, and pgx knows what to do about that.
	if _, ok := value.(embedded); ok && format == pgtype.BinaryFormatCode && reflect.TypeOf(value).Kind() != reflect.Pointer {
		return encodeUUID{}
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

type encodeUUID struct{}

func (encodeUUID) Encode(value any, to []byte) ([]byte, error) {
	text, err := value.(embedded).MarshalBinary() //nolint:forcetypeassert // the plan was made for this type
	return append(to, text...), err
}

type target interface {
	embedded
	encoding.BinaryUnmarshaler
}

func (c uuidCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, to any) pgtype.ScanPlan {
	if _, ok := to.(target); ok && format == pgtype.BinaryFormatCode {
		return scanUUID{}
	}
	return c.UUIDCodec.PlanScan(m, oid, format, to)
}

type scanUUID struct{}

// Scan leaves the value as it is where there is none, as uuid.UUID does.
func (scanUUID) Scan(from []byte, to any) error {
	if from == nil {
		return nil
	}
	if err := to.(target).UnmarshalBinary(from); err != nil { //nolint:forcetypeassert // the plan was made for this type
		return fmt.Errorf("reading a uuid: %w", err)
	}
	return nil
}

// NullID returns nil for the zero id, so that PostgreSQL stores NULL.
func NullID(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}
