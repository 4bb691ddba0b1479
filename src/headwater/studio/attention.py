"""The screen ``attention``."""

from fastapi import APIRouter

router = APIRouter(tags=["attention"])
