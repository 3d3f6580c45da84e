package s3

import (
	"encoding/xml"
	"net/http"
	"time"
)

// namespace is that of all XML bodies of S3.
const namespace = "http://s3.amazonaws.com/doc/2006-03-01/"

// stamp formats a time as S3 does.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

type owner struct {
	ID          string
	DisplayName string `xml:",omitempty"`
}

type bucketList struct {
	XMLName xml.Name `xml:"ListAllMyBucketsResult"`
	NS      string   `xml:"xmlns,attr"`
	Owner   owner
	Buckets []bucketEntry `xml:"Buckets>Bucket"`
}

type bucketEntry struct {
	Name         string
	CreationDate string
}

// minBucketName is the shortest name that clients accept for a bucket. Names of projects are otherwise possible ones.
const minBucketName = 3

// listBuckets lists the project of the key. A project with a shorter name is listed with its id.
func (c *call) listBuckets() error {
	if err := c.may("statStorage", false); err != nil {
		return err
	}
	name := c.use.ProjectName
	if len(name) < minBucketName {
		name = c.use.Project.String()
	}
	return c.reply(bucketList{
		NS: namespace, Owner: c.owner(), Buckets: []bucketEntry{{Name: name, CreationDate: stamp(c.use.ProjectCreatedAt)}},
	})
}

func (c *call) owner() owner {
	return owner{ID: c.caller.Tenant.String(), DisplayName: c.caller.TenantName}
}

func (c *call) headBucket() error {
	if err := c.may("statStorage", false); err != nil {
		return err
	}
	c.w.Header().Set("X-Amz-Bucket-Region", c.Region)
	c.w.WriteHeader(http.StatusOK)
	return nil
}

type location struct {
	XMLName xml.Name `xml:"LocationConstraint"`
	NS      string   `xml:"xmlns,attr"`
	Region  string   `xml:",chardata"`
}

func (c *call) getBucketLocation() error {
	if err := c.may("statStorage", false); err != nil {
		return err
	}
	return c.reply(location{NS: namespace, Region: c.Region})
}
