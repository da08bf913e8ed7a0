"""Images with five captions each: stored image features, caption files and their layouts."""
