"""Series, problems and engines that several test files of alphabet-learn share."""
