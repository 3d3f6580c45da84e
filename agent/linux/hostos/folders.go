package hostos

import "os"

// Folder is a folder that each session of a tenant sees as its own, and what pam_namespace puts in its place.
type Folder struct{ Path, Instance string }

// sharedFolders are the folders in which every user of a stock Debian or Ubuntu may make files. Without a folder of
// its own a tenant could leave files for others there, read theirs by name, or fill a disk of the node. Each session
// of a tenant sees its own in their place. The rule does not apply to root. pam_namespace sets $USER.
//
// /dev/mqueue is not in the list: the limits of a tenant allow no message queue.
var sharedFolders = []Folder{
	// In the image of the home, so that its quota and encryption apply.
	{"/tmp", HomesDir + "/$USER/data/tmp/ user:noinit"},
	{"/var/tmp", HomesDir + "/$USER/data/vartmp/ user:noinit"},
	{"/run/screen", HomesDir + "/$USER/data/screen/ user:noinit"}, // another session of the tenant continues it
	// Shared memory, which counts against the memory of the tenant.
	{"/dev/shm", ShmDir + "/ user:iscript=gpuaas.init"},
	// In memory, as long as the session.
	{"/run/lock", inMemory},                 // locks of devices
	{"/var/crash", inMemory},                // crash reports of Ubuntu
	{"/var/metrics", inMemory},              // whoopsie
	{"/var/spool/samba", inMemory},          // samba
	{"/var/lib/php/sessions", inMemory},     // php
	{"/var/cache/fonts", inMemory},          // texlive
	{"/var/spool/cups-pdf/SPOOL", inMemory}, // printer-driver-cups-pdf
}

const inMemory = "tmpfs tmpfs:noinit:mntopts=nosuid,nodev,noexec,size=16m,mode=1777"

// PrivateFolders lists the shared folders that this node has.
func (o OS) PrivateFolders() (found []Folder) {
	for _, folder := range sharedFolders {
		if info, err := os.Lstat(o.Path(folder.Path)); err == nil && info.IsDir() {
			found = append(found, folder)
		}
	}
	return found
}
