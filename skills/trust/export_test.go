package trust

// Decode reads what is in the file of a record.
func Decode(data []byte) (Record, error) { return decode(data) }
