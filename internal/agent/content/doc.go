// Package content keeps files by the SHA-256 of their content in a directory of a node: artifacts,
// and the files of workspaces that travel.
//
// The one idea: the name of a file says what is in it, so whoever sends it, it is taken only if it
// is what was asked for, and the same content is kept once.
//
// Guarantees: a reader finds all of a content or nothing, also after a crash. Contents that earlier processes
// wrote are hashed before their first use, so writing does not wait for the disk. Small
// contents that are put together lie in one file, and go together. The files never take more room
// than Config.MaxSize, beside contents that are being written; the caller of each bounds it. A Store
// may be used by many goroutines at once.
//
// It does not know what a content is, and who may read it. One directory belongs to one Store.
package content
